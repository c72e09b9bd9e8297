"""Functions that the `rsctl bench` commands share."""

from __future__ import annotations

from rsctl.api import Bench, CellStatistic, CellSummary, JobState, format_cell
from rsctl.cli.views.table import write_table

_COLUMNS = 4
"""The number of metrics in the table; `-o json` has them all."""


def print_table(bench: Bench, cells: list[CellSummary]) -> None:
    """Print a row for each cell: its values, the number of successful runs, its metrics."""
    names = metric_names(cells)
    rows = [["CELL", "RUNS", *map(str.upper, names)]]
    for index, cell in enumerate(cells):
        statistics = [str(cell.metrics.get(name, CellStatistic())) for name in names]
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


def _runs(bench: Bench, cell: int) -> str:
    """`2/3, 1 failed`."""
    numbers = bench.counts(cell)
    parts = [f"{numbers.pop(JobState.SUCCEEDED, 0)}/{bench.record.repeat}"]
    return ", ".join([*parts, *(f"{count} {state.value}" for state, count in numbers.items())])
