"""Whether a planned bench can be compared with a baseline, before anything of it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rsctl.bench.fingerprint import Cell, CellPrint, Fingerprint, refusals
from rsctl.bench.history_series import HistorySeries
from rsctl.bench.results import Results, cell_label
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.stream.sanitize import sanitize_text

_MOST = 5


def condition_changes(
    baseline: Fingerprint, planned: Sequence[Fingerprint], metrics: Iterable[str]
) -> list[str]:
    """In what the baseline of each cell was measured otherwise, each once.

    `planned` are the fingerprints of the possible placements: one that fits is enough.
    """
    found: list[str] = []
    for metric in metrics:
        for cell in [entry.cell for entry in planned[0].cells]:
            of_places = [refusals(baseline, place, cell, metric) for place in planned]
            if all(of_places):
                found += map(str, of_places[0])
    return list(dict.fromkeys(found))


def history_changes(
    series: Sequence[HistorySeries],
    job: str,
    planned: Sequence[Fingerprint],
    metrics: Iterable[str],
) -> list[str]:
    """The same for a history, in which one series that fits is enough for each metric and cell."""
    found: list[str] = []
    for metric in metrics:
        for cell in [entry.cell for entry in planned[0].cells]:
            mine = [one for one in series if (one.job, one.metric, one.cell) == (job, metric, cell)]
            mine.sort(key=lambda one: one.points[-1].committed)
            prints = [
                Fingerprint([CellPrint(cell, one.fixed)], {metric: one.definition}) for one in mine
            ]
            changes = [condition_changes(each, _only(cell, planned), [metric]) for each in prints]
            if changes and all(changes):
                found += changes[-1]
    return list(dict.fromkeys(found))


def content_changes(baseline: Results, cells: Sequence[Cell], metrics: Iterable[str]) -> list[str]:
    """The cells that only one side has, and the metrics without data in a cell of the baseline."""
    known = [runs.cell for runs in baseline.cells]
    new = [f"the baseline has no cell {_name(cell)}" for cell in cells if cell not in known]
    gone = [f"the job has no cell {_name(cell)}" for cell in known if cell not in cells]
    both = [cell for cell in cells if cell in known]
    lacking = [
        f"the baseline has no data for {metric}"
        for metric in metrics
        if not all((series := baseline.find(metric, cell)) and series.known for cell in both)
    ]
    return [*new, *gone, *lacking]


def refuse_changes(label: str, changes: Sequence[str], remedy: str) -> None:
    """Raise RsctlError if there are any: the gate could not decide after its runs either."""
    if not changes:
        return
    shown = "; ".join(changes[:_MOST])
    if len(changes) > _MOST:
        shown += f"; and {len(changes) - _MOST} more"
    message = f"the conditions of {label} differ, so nothing is run: {shown}"
    finding = error("baseline-conditions", sanitize_text(message), sanitize_text(remedy))
    raise RsctlError(ExitCode.USAGE, finding)


def _only(cell: Cell, planned: Sequence[Fingerprint]) -> list[Fingerprint]:
    return [
        Fingerprint([entry for entry in place.cells if entry.cell == cell], place.metrics)
        for place in planned
    ]


def _name(cell: Cell) -> str:
    return cell_label(cell) or "without a matrix"
