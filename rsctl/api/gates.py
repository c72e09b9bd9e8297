"""Gates in one call: by a baseline, by a history, or by pairs."""

from __future__ import annotations

import os
from collections.abc import Callable

from rsctl.api.arguments import check_count
from rsctl.api.bench_handle import Bench
from rsctl.api.bench_run import PreparedBench, never
from rsctl.api.budget import Budget
from rsctl.api.gate_candidate import Candidate, Judged, MaxRegression, open_candidate
from rsctl.api.gate_history import prepare_gate_of
from rsctl.api.gate_pairs import prepare_pairs
from rsctl.api.job_file import Settings
from rsctl.bench.gate import Gate
from rsctl.bench.observer import BenchObserver
from rsctl.bench.run import Stop
from rsctl.bench.schedule import unsuccessful
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.targets.managed.rehearsal.rehearsal import Rehearsal


def gate(
    source: Judged,
    target: str | None = None,
    *,
    set: Settings = (),
    baseline: str | os.PathLike[str] | None = None,
    against: str | os.PathLike[str] | None = None,
    max_regression: MaxRegression = (),
    repeat: int | None = None,
    confirm: int | None = None,
    history: str | os.PathLike[str] | None = None,
    window: int | None = None,
    looks: int | None = None,
    new: bool = False,
    parallel: int | None = None,
    observer: BenchObserver | None = None,
    stop: Callable[[], Stop] = never,
    budget: Budget | None = None,
    rehearse: Rehearsal | None = None,
) -> Gate:
    """Judge a bench, or a job file, whose remaining cells are run first.

    `baseline` is a file, gs://, s3://, git:REF:PATH or a bench, `max_regression` how much worse
    metrics may be, such as `{"throughput": "5%"}`, and `confirm` how often a suspected regression
    is run again. With `history`, a file, gs://, s3:// or git:REF:PATH, the last `window` commits
    are the baseline, or only limit an explicit `baseline`: what these commits differ by is not a
    regression. A gate that decides `looks` times about one baseline, as a loop does, has over all
    of them the error bound of one. Each, and `repeat`, is by default the value in `gate:` of the
    job file; a baseline or a history overrides both of the file.

    With `against`, a git ref or another job file, baseline and candidate run in turn as one bench
    and are judged by their pairs. In a cloud all their runs are one packed job where this is
    possible, unless the job has `bench.pack`. With `rehearse` the cloud is emulated on this
    machine, which needs `against`.

    `observer` and `stop` are as in `run_bench`. Runs that a `budget` does not allow do not start,
    and runs that did not start are no longer reserved.

    A regression does not raise an exception: see `verdict`, `checks` and `headline` of the result.
    Raises RsctlError if there is nothing to judge, or no baseline to judge by.
    """

    def run(prepared: PreparedBench, bench: Bench) -> object:
        spent, failed = budget or Budget(), unsuccessful(bench.record)
        spent.reserve(prepared.remaining(bench))
        try:
            return prepared.run(bench, parallel=parallel, observer=observer, stop=stop)
        finally:
            bench.reload()
            spent.release(spent.amount(prepared.remaining(bench, failed)))

    check_count("parallel", parallel, 1)
    if rehearse is not None and against is None:
        message = "a rehearsal has no stored baseline: its times say nothing about the cloud"
        remedy = "give the other side: against=REF or a job file"
        raise RsctlError(ExitCode.USAGE, error("against", message, remedy))
    candidate = open_candidate(source, target, set=set, new=new, rehearse=rehearse)
    rules = candidate.rules(baseline, max_regression, repeat, confirm, history, window, looks)
    if is_paired(candidate, baseline, against, history):
        pairs = prepare_pairs(candidate, rules, against, target)
        paired = pairs.measure(run)
        verdict = pairs.decide(paired)
        if pairs.must_confirm(verdict):
            verdict = pairs.confirm(verdict, paired, run)
        return pairs.conclude(verdict)
    prepared = prepare_gate_of(candidate, rules)
    prepared.require_comparable()
    results = prepared.measure(run)
    decision = prepared.decide(results)
    if prepared.must_confirm(decision):
        decision = prepared.confirm(decision, results, run)
    return prepared.conclude(decision, results)


def is_paired(
    candidate: Candidate,
    baseline: str | os.PathLike[str] | None,
    against: str | os.PathLike[str] | None,
    history: str | os.PathLike[str] | None = None,
) -> bool:
    """Whether a gate judges by pairs. Raises RsctlError if it has two baselines.

    The baseline and the history of a job file have no effect on pairs.
    """
    if against is None:
        return candidate.record.against is not None and baseline is None and history is None
    for name, given in (("baseline", baseline), ("history", history)):
        if given is not None:
            message = f"--against and --{name} exclude each other"
            raise RsctlError(ExitCode.USAGE, error("against", message, "give one of them"))
    return True
