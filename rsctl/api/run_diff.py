"""Differences between two runs, and the values that moved: `rsctl diff`."""

from __future__ import annotations

from contextlib import closing
from typing import Optional

import msgspec

from rsctl.api.reconcile import OnOutdated, ignore
from rsctl.api.run_handle import Run
from rsctl.api.run_list import run as find_run
from rsctl.bench.differences import Difference
from rsctl.bench.run_differences import run_differences
from rsctl.bench.samples import Sample, samples
from rsctl.bench.step_parts import BUCKETS, NO_STEPS, PARTS, Moved, moved_ranks, moved_values
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stragglers import RANK, rank_times


class DiffSide(msgspec.Struct, kw_only=True):
    """One of the two runs."""

    run: str
    name: str
    target: str
    state: JobState
    created: str


class RunDiff(msgspec.Struct, kw_only=True):
    """The output of `diff -o json`: what differs between two runs, and what moved.

    `differences` are conditions of the runs. `steps` are the parts of a step in seconds and the
    number of gradient buckets, the part that moved most first; `ranks` the computation and wait of
    each rank. `metrics` are samples over the steady part. `remarks` name the missing data.
    """

    sides: tuple[DiffSide, DiffSide]
    differences: list[Difference]
    steps: list[Moved]
    ranks: list[Moved]
    metrics: list[Moved]
    remarks: list[str]

    @property
    def moved_most(self) -> Optional[Moved]:
        """The part of a step that moved most; None if no part is known on both sides."""
        return next((part for part in self.steps if part.name in PARTS and part.change), None)


def diff(one: Run | str, other: Run | str, *, on_outdated: OnOutdated = ignore) -> RunDiff:
    """Compare two runs: what differs between them, and what moved from the first to the second.

    Runs of any target and state are compared; a run that has not ended, by its values so far.
    Raises RsctlError if a run does not exist, or both are the same run.
    """
    records = [
        (each if isinstance(each, Run) else find_run(each, on_outdated=on_outdated)).record
        for each in (one, other)
    ]
    before, after = records
    if before.run == after.run:
        message = f"both sides are {before.run}"
        finding = error("run", message, "name two runs: see `rsctl list`")
        raise RsctlError(ExitCode.USAGE, finding)
    with closing(Store()) as store:
        values, others = samples(store, before), samples(store, after)
        ranks = [rank_times(store.latest(each.run, RANK)) for each in records]
        steps = moved_values(_numbers(values), _numbers(others))
        return RunDiff(
            sides=(_side(before), _side(after)),
            differences=run_differences(store, before, after),
            steps=steps,
            ranks=moved_ranks(*ranks),
            metrics=_metrics(values, others),
            remarks=[
                *(_unfinished(run) for run in records if run.state is not JobState.SUCCEEDED),
                *_missing(records, steps),
            ],
        )


def _side(run: RunRecord) -> DiffSide:
    return DiffSide(
        run=run.run, name=run.name, target=run.target, state=run.state, created=run.created
    )


def _numbers(known: dict[str, Sample]) -> dict[str, float]:
    return {name: sample.value for name, sample in known.items() if sample.value is not None}


def _metrics(before: dict[str, Sample], after: dict[str, Sample]) -> list[Moved]:
    """The samples that a side has, less the parts of a step."""
    found = []
    for name in dict.fromkeys([*before, *after]):
        sides = [side.get(name, Sample()) for side in (before, after)]
        if name in (*PARTS, BUCKETS) or all(side.value is None for side in sides):
            continue
        unit = sides[0].unit or sides[1].unit
        moved = Moved(
            name=name,
            unit=unit,
            baseline=sides[0].value,
            candidate=sides[1].value,
            aggregate=" -> ".join(dict.fromkeys(s.aggregate for s in sides if s.aggregate)) or None,
        )
        found.append(moved)
    return found


def _unfinished(run: RunRecord) -> str:
    if run.state.is_final:
        return f"{run.run} {run.state.value}: its values are from before that"
    return f"{run.run} is {run.state.value}: its values are those so far"


def _missing(records: list[RunRecord], steps: list[Moved]) -> list[str]:
    found = []
    if before := [run.run for run in records if run.spec is None]:
        found.append(f"the job file of {' and '.join(before)} is not stored: keys are not compared")
    lacking = [
        run.run
        for run, side in zip(records, ("baseline", "candidate"), strict=True)
        if all(getattr(part, side) is None for part in steps)
    ]
    return [*found, *([f"{' and '.join(lacking)}: {NO_STEPS}"] if lacking else [])]
