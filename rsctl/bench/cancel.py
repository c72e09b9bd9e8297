"""Cancels a bench: through its driver if it has one, otherwise directly."""

from __future__ import annotations

from time import monotonic, sleep

from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs.findings import NO_ANSWER
from rsctl.runs.ids import packed_job
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import now
from rsctl.runs.unknown_result import ResultUnknown
from rsctl.targets import get

_POLL_SECONDS = 0.2
_ASK_SECONDS = 5.0


def request_cancel(store: Store, bench: BenchRecord) -> None:
    """Request that its unfinished runs end, and wait for none.

    Raises RsctlError after all others were asked; it names each run that continues.
    """
    record = Benches(store).get(bench.bench) or bench
    problem, left = None, list[RunRecord]()
    for run in _going(store, record):
        if problem is None or problem.exit_code is not ExitCode.ENVIRONMENT:  # which is of all
            try:
                get(run.target).cancel(run.run)
                continue
            except RsctlError as caught:
                problem = caught
        left.append(run)
    if problem:
        raise _unknown(problem, left)


def cancel_bench(store: Store, bench: BenchRecord, seconds: float) -> BenchRecord:
    """End all its runs, and start no more; returns the record afterwards.

    Waits at most this number of seconds; raises RsctlError (exit code 6) if runs are active after
    that.
    """
    benches = Benches(store)
    benches.enter(bench.bench, JobState.CANCELLING)
    deadline, ask_at = monotonic() + seconds, 0.0
    while True:
        record = benches.get(bench.bench) or bench
        is_driven = BenchFolder(bench.bench).is_driven()
        if not is_driven:
            going = [t for t in record.latest().values() if not t.state.is_final]
            if monotonic() >= ask_at:
                ask_at = monotonic() + _ASK_SECONDS
                request_cancel(store, bench)
            try:
                have_ended = all(_has_ended(store, benches, record, trial) for trial in going)
            except RsctlError as problem:
                raise _unknown(problem, _going(store, record)) from None
            if have_ended:
                benches.enter(bench.bench, JobState.CANCELLED, now())
                return benches.get(bench.bench) or bench
        if monotonic() >= deadline:
            break
        sleep(_POLL_SECONDS)
    message = f"runs of {bench.bench} have not ended after {seconds:g} s"
    remedy = f"they have been asked to end: rsctl bench status {bench.bench}"
    raise RsctlError(ExitCode.TIMED_OUT, error("cancel", message, remedy))


def _going(store: Store, bench: BenchRecord) -> list[RunRecord]:
    """The runs that have not ended, as far as the store knows; of slots their jobs."""
    trials = [trial for trial in bench.latest().values() if not trial.state.is_final]
    names = dict.fromkeys(packed_job(trial.run) or trial.run for trial in trials)
    return [run for run in map(store.get, names) if run is not None and not run.state.is_final]


def _unknown(problem: RsctlError, runs: list[RunRecord]) -> RsctlError:
    """The error with the consequence for each run that it concerns."""
    jobs = [ResultUnknown(run, *problem.findings) for run in runs if run.is_located]
    findings = [*problem.findings, *(finding for job in jobs for finding in job.findings)]
    return RsctlError(problem.exit_code, *dict.fromkeys(findings))


def _has_ended(store: Store, benches: Benches, bench: BenchRecord, trial: Trial) -> bool:
    job = packed_job(trial.run)
    run = store.get(job or trial.run)
    if run is not None and not run.state.is_final:
        try:
            get(run.target).reconcile(run.run)
        except RsctlError as problem:
            if [finding.code for finding in problem.findings] != [NO_ANSWER]:
                raise  # otherwise the next call asks again
        run = store.get(run.run)
    if run is not None and not run.state.is_final:
        return False
    if job is not None and run is not None:
        return True  # the next driver records the slots that have ended
    trial.state = run.state if run else JobState.CANCELLED
    trial.exit_code = int(trial.state.exit_code)
    trial.reason = run.reason if run else "it was never submitted"
    benches.note(bench.bench, trial)
    return True
