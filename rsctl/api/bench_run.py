"""Benches, prepared and run: the cells of a job file's matrix, each repeated."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from rsctl.api.arguments import MOST_REPETITIONS, check_count
from rsctl.api.bench_handle import Bench
from rsctl.api.job_file import JobFile, load, message_findings
from rsctl.bench import run as driver
from rsctl.bench.observer import BenchObserver
from rsctl.bench.pack_savings import pack_remark
from rsctl.bench.prepare import BenchPlan
from rsctl.bench.prepare import prepare as make_bench_plan
from rsctl.bench.records import Benches, BenchRecord, Cell
from rsctl.bench.run import Stop
from rsctl.bench.schedule import TrialKeys, pending, unsuccessful
from rsctl.findings import ExitCode, Finding, RsctlError, counted
from rsctl.images.git_commit import commit_of
from rsctl.runs.store import Store, store_file
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.targets.base import Submission
from rsctl.targets.managed.rehearsal.rehearsal import Rehearsal

BenchJob = Union[JobFile, str, "os.PathLike[str]"]
"""A job file that was loaded, or its path."""


def never() -> Stop:
    """The controls of a bench that runs without interruptions."""
    return None


def claim(record: BenchRecord, new: bool, excluded: Collection[str] = ()) -> Bench:
    """The latest bench of the store that measures the same; otherwise, or if `new` or if its ID is
    `excluded`, this one, recorded.
    """
    commit = commit_of(Path(record.folder))
    record.commit = commit and commit.label
    with closing(Store()) as store:
        return Bench(Benches(store).claim(record, new, excluded))


@dataclass(frozen=True)
class PreparedBench:
    """The cells of a job file, all of which this environment can run; nothing is recorded yet.

    `findings` are the warnings of their plans and remarks of this environment.
    """

    job: JobFile
    plan: BenchPlan = field(repr=False)
    findings: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """The job's name, with which the bench's id begins."""
        return self.plan.job.name

    @property
    def cells(self) -> list[Cell]:
        """The values of each cell; one without values for a job without a matrix."""
        return [cell.values for cell in self.plan.cells]

    @property
    def metric_specs(self) -> dict[str, MetricSpec]:
        """The job's metrics by name, for reading them out of log lines."""
        return self.plan.metric_specs

    def claim(
        self, repeat: int | None = None, *, new: bool = False, excluded: Collection[str] = ()
    ) -> Bench:
        """The latest bench of the store that measures the same; a new one if there is none, if
        `new`, or if its ID is `excluded`.

        It has `repeat` repetitions of each cell: by default the number in `gate.repeat`, otherwise
        one. Raises RsctlError.
        """
        check_count("repeat", repeat, 1, MOST_REPETITIONS)
        gate = self.plan.job.gate
        times = repeat or (gate.repeat if gate else None) or 1
        return claim(self.plan.new_bench(times), new, excluded)

    def remaining(self, bench: Bench, failed: TrialKeys | None = None) -> list[Submission]:
        """The submissions that `run` makes of a claimed bench, each without a run ID of its own.

        After `run` with the trials that had `failed` before, those that it has not made.
        """
        slots = pending(bench.record, unsuccessful(bench.record) if failed is None else failed)
        return [self.plan.cells[cell].submission for cell, _ in slots]

    def remarks(self, bench: Bench) -> list[str]:
        """The other runs on this machine that may slow the remaining runs of a claimed bench, and
        the savings by packing these. Raises RsctlError.
        """
        slots = pending(bench.record, unsuccessful(bench.record))
        is_here = self.plan.rehearsal is not None or not self.plan.target.info.is_managed
        found = []
        if slots and is_here and (others := bench.neighbours()):
            count = counted(len(others), "other run")
            found.append(f"{count} on this machine, such as {others[0]}, may slow the bench")
        if slots and self.plan.is_packed:
            with closing(Store()) as store:
                found.append(pack_remark(store, self.plan, slots))
        return found

    def run(
        self,
        bench: Bench,
        *,
        parallel: int | None = None,
        fail_fast: bool = False,
        observer: BenchObserver | None = None,
        stop: Callable[[], Stop] = never,
    ) -> Bench:
        """Run the remaining runs of a claimed bench; see `rsctl.api.run_bench`."""
        check_count("parallel", parallel, 1)
        has_receivers = self.plan.job.tracking or self.plan.job.notify
        bench.record = driver.run_bench(
            self.plan,
            bench.record,
            parallel=parallel,
            fail_fast=fail_fast,
            observer=observer,
            stop=stop,
            begun=bench.start_trackers if has_receivers else lambda: None,
        )
        return bench


def packed_plan(job: JobFile, target: str | None, rehearse: Rehearsal | None) -> str:
    """The savings by packing a whole bench of the job file, by the runs that this machine knows.

    Raises RsctlError.
    """
    plan = make_bench_plan(job.copy_document(), job.settings, target, rehearse)
    gate = job.spec.gate
    repeat = (gate.repeat if gate else None) or 1
    slots = [(cell, number) for number in range(repeat) for cell in range(len(plan.cells))]
    if not store_file().exists():  # a plan does not create the store
        return pack_remark(None, plan, slots)
    with closing(Store()) as store:
        return pack_remark(store, plan, slots)


def prepare_bench(
    job: BenchJob, target: str | None = None, *, rehearse: Rehearsal | None = None
) -> PreparedBench:
    """Plan the cells of a job file and check that this environment can run them.

    With `rehearse` the cloud is emulated on this machine, and nothing is sent there. Raises
    RsctlError with all errors of all cells, and all that is missing in this environment.
    """
    file = job if isinstance(job, JobFile) else load(job)
    plan = make_bench_plan(file.copy_document(), file.settings, target, rehearse)
    lacking: list[Finding] = []
    if plan.rehearsal is None:
        lacking = list(plan.target.preflight(plan.cells[0].submission))
    else:
        for cell in plan.cells:
            found = plan.rehearsal.findings(cell.submission)
            lacking += [finding for finding in found if finding not in lacking]
    lacking += message_findings(plan.job)
    missing = [finding for finding in lacking if finding.is_error]
    if missing:
        raise RsctlError(ExitCode.ENVIRONMENT, *missing)
    shown = [f for f in (*plan.findings, *lacking) if f.severity != "note" or f.code == "bench"]
    notes = [f for f in lacking if plan.rehearsal and f.severity == "note"]
    findings = [*shown, *notes]
    return PreparedBench(file, plan, tuple(findings))


def run_bench(
    job: BenchJob,
    target: str | None = None,
    *,
    repeat: int | None = None,
    new: bool = False,
    parallel: int | None = None,
    fail_fast: bool = False,
    observer: BenchObserver | None = None,
    stop: Callable[[], Stop] = never,
    rehearse: Rehearsal | None = None,
) -> Bench:
    """Run the cells of a job file's matrix that have not succeeded yet; returns when all have
    ended.

    Each cell is run `repeat` times (default: `gate.repeat` of the file, otherwise 1). A second call
    finds the bench of the first, and runs only its missing runs, unless `new`. `parallel` is how
    many runs may be in progress at the same time: by default one on this machine, and in a cloud as
    many as there are cells, 20 at most. `fail_fast` ends all runs after the first failure.
    `observer` gets the events, in this thread. `stop` is called about twenty times a second; to
    stop the bench it returns `"leave"` or `"cancel"`, which says what happens to the runs in
    progress. With `rehearse` the cloud is emulated on this machine; the bench is marked as
    rehearsed, and no gate accepts it.

    Failed runs do not raise an exception: see the bench's `is_complete` and `exit_code`. Raises
    RsctlError if no more runs can start. A KeyboardInterrupt leaves the runs in progress as they
    are; the same call continues with them.
    """
    check_count("repeat", repeat, 1, MOST_REPETITIONS)
    check_count("parallel", parallel, 1)
    prepared = prepare_bench(job, target, rehearse=rehearse)
    bench = prepared.claim(repeat, new=new)
    return prepared.run(bench, parallel=parallel, fail_fast=fail_fast, observer=observer, stop=stop)
