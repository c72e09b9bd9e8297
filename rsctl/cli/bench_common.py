"""What the commands of `rsctl bench` have in common."""

from __future__ import annotations

import shlex
from typing import Any

from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Bench
from rsctl.bench.summary import CellFigure, CellSummary, counts, format_cell
from rsctl.findings import JobState
from rsctl.stream.formatting import format_number

_COLUMNS = 4
"""So many metrics stand in the table; `-o json` has them all."""


def shown(bench: Bench) -> dict[str, Any]:
    """A bench as `-o json` prints it, without the file it was made from."""
    trials = sorted(bench.trials, key=lambda trial: trial.key)
    return {
        "bench": bench.bench,
        "name": bench.name,
        "target": bench.target,
        "state": bench.state,
        "driven": BenchFolder(bench.bench).is_driven(),
        "created": bench.created,
        "ended": bench.ended,
        "exit_code": int(bench.exit_code),
        "repeat": bench.repeat,
        "images": bench.images,
        "trials": [
            {
                "cell": bench.cells[trial.cell],
                "repetition": trial.repetition,
                "attempt": trial.attempt,
                "run": trial.run,
                "state": trial.state,
                "exit_code": trial.exit_code,
                "reason": trial.reason,
            }
            for trial in trials
        ],
    }


def how_to_go_on(bench: Bench) -> str:
    """The command that runs what is missing of a bench."""
    arguments = ["rsctl", "bench", "run", bench.file]
    arguments += ["-t", bench.target] if bench.target != bench.spec.get("target", "process") else []
    arguments += [part for setting in bench.settings for part in ("--set", setting)]
    return shlex.join([*arguments, *(["--repeat", str(bench.repeat)] if bench.repeat > 1 else [])])


def state_of(bench: Bench) -> str:
    """Its state; `incomplete` where no driver runs it, whatever was written down."""
    if bench.state.is_final or BenchFolder(bench.bench).is_driven():
        return bench.state.value
    return "incomplete"


def table(bench: Bench, cells: list[CellSummary]) -> list[str]:
    """A line for each cell: its values, how many of its runs succeeded, its metrics."""
    names = metric_names(cells)
    rows = [["CELL", "RUNS", *map(str.upper, names)]]
    for index, cell in enumerate(cells):
        figures = [format_figure(cell.metrics.get(name)) for name in names]
        rows.append([format_cell(cell.values), _runs(bench, index), *figures])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def metric_names(cells: list[CellSummary]) -> list[str]:
    """The metrics worth a column: the job's own first, then time and money where they are known."""
    names = dict.fromkeys(name for cell in cells for name in cell.metrics)
    declared = [name for name in names if not name.startswith("run.")]
    more = [
        name
        for name in ("run.time", "run.cost")
        if any(cell.metrics.get(name, CellFigure()).n for cell in cells)
    ]
    return [*declared[: _COLUMNS - len(more)], *more]


def format_figure(figure: CellFigure | None) -> str:
    """`123 samples/s (120 … 125)`, or `no data`."""
    if figure is None or figure.value is None:
        return "no data"
    known = [value for value in figure.values if value is not None]
    text = format_number(figure.value) + (f" {figure.unit}" if figure.unit else "")
    low, high = format_number(min(known)), format_number(max(known))
    return text if low == high else f"{text} ({low} … {high})"


def _runs(bench: Bench, cell: int) -> str:
    """`2/3, 1 failed`."""
    found = counts(bench, cell)
    parts = [f"{found.pop(JobState.SUCCEEDED, 0)}/{bench.repeat}"]
    return ", ".join([*parts, *(f"{count} {state.value}" for state, count in found.items())])
