"""The section of a report about a history: its series, a chart of each, and the steps."""

from __future__ import annotations

from collections.abc import Sequence

from rsctl.bench.history import short_commit
from rsctl.bench.history_series import FoundStep, HistorySeries
from rsctl.bench.results import cell_label
from rsctl.bench.steps import SHORTEST
from rsctl.results.report.charts import HistoryChart, HistoryStep
from rsctl.results.report.html import NONE, Child, element, paragraph, table
from rsctl.results.report.page import Page, left_out
from rsctl.results.report.result_section import with_unit

CHARTS = 24
"""Series that are drawn at most."""

_MOST = 1e100
_TABLE_ROWS = 120


def add_history(page: Page, location: str, series: Sequence[HistorySeries]) -> None:
    """The section of a history; charts of the first series."""
    if not series:
        page.add(f"History {location}", paragraph("It has no records.", class_="faint"))
        return
    jobs = list(dict.fromkeys(one.job for one in series))
    drawn = series[:CHARTS]
    page.add(
        f"History {location}",
        paragraph(
            "Each dot is the median of a commit's runs, a small dot one run. A line is the level "
            "between two steps; a shaded range has the commits at which a step may be.",
            class_="faint",
        ),
        _table(series, len(jobs) > 1),
        page.figures([history_chart(one, len(jobs) > 1) for one in drawn]),
        left_out(len(series) - CHARTS, "series", "not drawn.", plural="series"),
        *_steps(series),
    )


def history_chart(series: HistorySeries, has_jobs: bool = False) -> HistoryChart:
    """The values of a series over its commits."""
    points = [point for point in series.points if abs(point.value) < _MOST]
    is_whole = len(points) == len(series.points)
    unit = f" ({series.unit})" if series.unit else ""
    dates = f"{points[0].committed[:10]} to {points[-1].committed[:10]}" if points else ""
    return HistoryChart(
        title=f"{series.job}: {series.title}" if has_jobs else series.title,
        x=f"commits, {dates}",
        y=f"{series.metric}{unit}",
        commits=[point.commit[:7] for point in points],
        runs=[point.values for point in points],
        levels=series.levels() if is_whole else [],
        steps=[HistoryStep(s.first, s.last, s.size_text) for s in series.steps if is_whole],
        note="" if not series.is_short else f"Steps need at least {SHORTEST} commits.",
    )


def _table(series: Sequence[HistorySeries], has_jobs: bool) -> Child:
    rows = [
        (
            *([one.job] if has_jobs else []),
            one.metric,
            cell_label(one.cell) or NONE,
            one.condition or NONE,
            str(len(one.points)),
            with_unit(one.points[-1].value, one.unit or ""),
            with_unit(one.levels()[-1][2], one.unit or ""),
            "unknown" if one.is_short else str(len(one.steps)),
        )
        for one in series[:_TABLE_ROWS]
    ]
    head = [*(["job"] if has_jobs else []), "metric", "cell", "condition", "commits"]
    head += ["latest commit", "level", "steps"]
    return table(head, rows, only_filled=True)


def _steps(series: Sequence[HistorySeries]) -> list[Child]:
    found = [(one, step) for one in series for step in one.steps]
    if not found:
        return [paragraph("No step was found.", class_="faint")]
    latest = sorted(found, key=lambda pair: pair[0].points[pair[1].position].committed)[::-1]
    head = ("commit", "date", "change", "", "confidence", "before", "after", "range", "series")
    rows = [_row(one, step) for one, step in latest[:_TABLE_ROWS]]
    return [element("h3", "Steps, latest first"), table(head, rows)]


def _row(series: HistorySeries, step: FoundStep) -> Sequence[str]:
    unit = series.unit or ""
    return (
        short_commit(step.commit),
        series.points[step.position].committed[:10],
        step.size_text,
        {True: "worse", False: "better", None: ""}[step.is_worse],
        step.confidence_text,
        with_unit(step.level_before, unit),
        with_unit(step.level, unit),
        step.range,
        series.title,
    )
