"""Functions that the `rsctl bench` commands share."""

from __future__ import annotations

from rsctl.api import Bench, CellStatistic, CellSummary, JobState, format_cell
from rsctl.cli.views.table import write_table
from rsctl.runs.stream.formatting import format_number

_COLUMNS = 4
"""The number of metrics in the table; `-o json` has them all."""


def print_table(bench: Bench, cells: list[CellSummary]) -> None:
    """Print a row for each cell: its values, the number of successful runs, its metrics."""
    names = metric_names(cells)
    rows = [["CELL", "RUNS", *map(str.upper, names)]]
    for index, cell in enumerate(cells):
        statistics = [format_statistic(cell.metrics.get(name)) for name in names]
        rows.append([format_cell(cell.values), _runs(bench, index), *statistics])
    write_table(rows)


def metric_names(cells: list[CellSummary]) -> list[str]:
    """The metrics that get a column: the job's own first, then time and cost if known."""
    names = dict.fromkeys(name for cell in cells for name in cell.metrics)
    declared = [name for name in names if not name.startswith("run.")]
    more = [
        name
        for name in ("run.time", "run.cost")
        if any(cell.metrics.get(name, CellStatistic()).n for cell in cells)
    ]
    return [*declared[: _COLUMNS - len(more)], *more]


def format_statistic(statistic: CellStatistic | None) -> str:
    """`123 samples/s (120 … 125), 2 of 3 runs`, or `no data`; all runs are not mentioned."""
    if statistic is None or statistic.value is None:
        return "no data"
    values = [value for value in statistic.values if value is not None]
    text = format_number(statistic.value) + (f" {statistic.unit}" if statistic.unit else "")
    low, high = format_number(min(values)), format_number(max(values))
    text = text if low == high else f"{text} ({low} … {high})"
    count = len(statistic.values)
    return text if statistic.n == count else f"{text}, {statistic.n} of {count} runs"


def _runs(bench: Bench, cell: int) -> str:
    """`2/3, 1 failed`."""
    numbers = bench.counts(cell)
    parts = [f"{numbers.pop(JobState.SUCCEEDED, 0)}/{bench.record.repeat}"]
    return ", ".join([*parts, *(f"{count} {state.value}" for state, count in numbers.items())])
