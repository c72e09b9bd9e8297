"""The results of a bench's cells, for display and for `-o json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Optional

import msgspec

from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import BenchRecord, Cell, Trial
from rsctl.bench.samples import Sample, quantile, samples
from rsctl.findings import JobState
from rsctl.job.matrix import format_value as format_value
from rsctl.runs.store import Store
from rsctl.runs.stream.formatting import format_number

INCOMPLETE = "incomplete"
"""The state of a bench that has not ended and that no process runs."""


class CellStatistic(msgspec.Struct, kw_only=True):
    """One metric of one cell: the median of the samples of its runs that succeeded.

    `values` are those samples in the order of the repetitions, None if a run has no data;
    `reason` says why there is no value at all.
    """

    value: Optional[float] = None
    values: list[Optional[float]] = []
    n: int = 0
    unit: Optional[str] = None
    goal: Optional[str] = None
    reason: Optional[str] = None

    def __str__(self) -> str:
        """`123 samples/s (120 … 125), 2 of 3 runs`, or `no data`; all runs are not mentioned."""
        if self.value is None:
            return "no data"
        values = [value for value in self.values if value is not None]
        text = format_number(self.value) + (f" {self.unit}" if self.unit else "")
        low, high = format_number(min(values)), format_number(max(values))
        text = text if low == high else f"{text} ({low} … {high})"
        count = len(self.values)
        return text if self.n == count else f"{text}, {self.n} of {count} runs"


class CellSummary(msgspec.Struct, kw_only=True):
    """One cell: its values, the runs of its repetitions that succeeded, its metrics."""

    values: Cell
    runs: list[str]
    metrics: dict[str, CellStatistic]


def summarize(store: Store, bench: BenchRecord) -> list[CellSummary]:
    """All cells in their order."""
    summaries = []
    for index, values in enumerate(bench.cells):
        runs = bench.runs_of(index)
        samples_of_runs = [
            samples(store, run) for name in runs if (run := store.get(name)) is not None
        ]
        summaries.append(
            CellSummary(values=values, runs=runs, metrics=cell_statistics(samples_of_runs))
        )
    return summaries


def cell_statistics(runs: Iterable[Mapping[str, Sample]]) -> dict[str, CellStatistic]:
    """The metrics of a cell, from the samples of its runs."""
    samples_of_runs = list(runs)
    names = dict.fromkeys(name for run in samples_of_runs for name in run)
    return {name: _cell_statistic([run.get(name) for run in samples_of_runs]) for name in names}


def _cell_statistic(found: list[Sample | None]) -> CellStatistic:
    about = next(sample for sample in found if sample is not None)
    values = [sample.value if sample is not None else None for sample in found]
    numbers = [value for value in values if value is not None]
    return CellStatistic(
        value=quantile(numbers, 0.5) if numbers else None,
        values=values,
        n=len(numbers),
        unit=about.unit,
        goal=about.goal,
        reason=None if numbers else about.reason,
    )


def format_cell(values: Cell, longest: int | None = None) -> str:
    """`workers.count=2 comm.backend=gloo`; a bench without a matrix has one cell.

    A text of more than `longest` characters has `lr` for `run.args.lr`, unless two keys would be
    equal.
    """
    text = " ".join(f"{key}={format_value(value)}" for key, value in values.items()) or "the job"
    short = {key.rpartition(".")[2]: value for key, value in values.items()}
    if longest is None or len(text) <= longest or len(short) < len(values):
        return text
    return format_cell(short)


def format_trial(cells: Sequence[Cell], trial: Trial, longest: int | None = None) -> str:
    """A trial of a bench: `workers.count=2 #3` is the third repetition of a cell. See
    `format_cell` for `longest`.
    """
    return f"{format_cell(cells[trial.cell], longest)} #{trial.repetition + 1}"


def state_text(bench: BenchRecord) -> str:
    """The bench's state; `INCOMPLETE` if it has not ended and no process runs it."""
    is_known = bench.state.is_final or BenchFolder(bench.bench).is_driven()
    return bench.state.value if is_known else INCOMPLETE


def counts(bench: BenchRecord, cell: int) -> dict[JobState, int]:
    """How many repetitions of a cell are in which state; those not begun are not counted."""
    numbers: dict[JobState, int] = {}
    for trial in _latest(bench):
        if trial.cell == cell:
            numbers[trial.state] = numbers.get(trial.state, 0) + 1
    return numbers


def done(bench: BenchRecord) -> int:
    """How many of its runs have succeeded."""
    return sum(trial.state is JobState.SUCCEEDED for trial in _latest(bench))


def _latest(bench: BenchRecord) -> list[Trial]:
    return [trial for trial in bench.latest().values() if trial.repetition < bench.repeat]
