"""The section of a report that compares several runs, benches and baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rsctl.bench.compare import Compared, Comparison, baselines_first, compare, effect_texts
from rsctl.bench.gate import evaluate
from rsctl.bench.results import Results, cell_label
from rsctl.bench.verdict import Floor
from rsctl.findings import RsctlError, counted
from rsctl.results.report.charts import Chart, IntervalChart, effect_bar
from rsctl.results.report.html import NONE, Child, details, element, facts, items, paragraph, table
from rsctl.results.report.page import Page

_SIDES = 6
"""Sides with a separate column; the table of runs has all."""

_ROWS = 120
_FEW = 10
"""Differences that are shown without being asked for."""

_SHOWN = ("run.time", "run.step", "run.cost")


def add_comparison(page: Page, sides: Sequence[Results], floors: Mapping[str, Floor]) -> None:
    """The last side against the first, metric by metric and cell by cell; a verdict by floors."""
    sides = baselines_first(sides)
    comparison = compare(sides)
    first, last = comparison.sides[0], comparison.sides[-1]
    shown = [m for m in comparison.metrics if not m.name.startswith("run.") or m.name in _SHOWN]
    page.add(
        "Comparison",
        paragraph(
            f"{last.kind} {last.label} compared with {first.kind} {first.label}. The effect is "
            "the median of all pairwise differences of runs, relative to the first side's "
            "median, with a 90 % interval and a two-sided exact permutation test.",
            class_="faint",
        ),
        *_verdict(sides[0], sides[-1], floors),
        *_table(comparison, shown),
        page.figures(_charts(shown)),
        _others(comparison, shown),
        *_differences(comparison),
    )


def _differences(comparison: Comparison) -> list[Child]:
    if not comparison.differences:
        return []
    rows = [(d.name, _known(d.baseline), _known(d.candidate)) for d in comparison.differences[:60]]
    count = counted(len(comparison.differences), "thing")
    title = f"They differ in {count} besides the measurements"
    shown = table(("", "first", "last"), rows)
    if len(comparison.differences) <= _FEW:
        return [paragraph(f"{title}:"), shown]
    return [details(title, shown)]


def _known(value: object) -> str:
    return "unknown" if value is None else str(value)


def _others(comparison: Comparison, shown: Sequence[Compared]) -> Child:
    others = [metric for metric in comparison.metrics if metric not in shown]
    return details("Phases of the runs", *_table(comparison, others)) if others else None


def _table(comparison: Comparison, metrics: Sequence[Compared]) -> list[Child]:
    sides = comparison.sides
    columns = [*range(len(sides))] if len(sides) <= _SIDES else [0, len(sides) - 1]
    head = ["metric", "cell", *(f"{sides[i].kind} {sides[i].label}, median" for i in columns)]
    head += ["effect", "90 % interval", "p", "remark"]
    known = [metric for metric in metrics if not _lacks_data(metric)]
    lacking = [metric for metric in metrics if _lacks_data(metric)]
    parts: list[Child] = []
    if known:
        parts += _rows_table(head, [_row(m, columns) for m in known[:_ROWS]])
    if lacking:
        title = f"{counted(len(lacking), 'row')} without data on one of the compared sides"
        rows = [_row(m, columns) for m in lacking[:_ROWS]]
        parts.append(details(title, *_rows_table(head, rows)))
    return parts


def _rows_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Child]:
    """A table without the columns that are empty; one remark on all rows stands before it."""
    remarks = {row[-1] for row in rows}
    is_common = len(remarks) == 1 and len(rows) > 1 and "" not in remarks
    remark = paragraph(f"All rows: {remarks.pop()}.", class_="faint") if is_common else None
    return [remark, table(head[: len(head) - is_common], rows, only_filled=True)]


def _lacks_data(metric: Compared) -> bool:
    return not (metric.sides[0].n and metric.sides[-1].n)


def _row(metric: Compared, columns: Sequence[int]) -> list[str]:
    sides = [metric.sides[i] for i in columns]
    values = [NONE if s.value is None else f"{s.text} (n={s.n})" for s in sides]
    return [metric.name, _cell(metric), *values, *effect_texts(metric), metric.remark or ""]


def _cell(metric: Compared) -> str:
    return "all cells" if metric.cell is None else cell_label(metric.cell) or NONE


def _charts(metrics: Sequence[Compared]) -> list[Chart]:
    charts: list[Chart] = []
    for name in dict.fromkeys(m.name for m in metrics):
        known = [m for m in metrics if m.name == name and m.effect is not None]
        bars = [
            effect_bar(_cell(m) if _cell(m) != NONE else name, m.effect, m.interval) for m in known
        ]
        if any(side.n > 1 for m in known for side in m.sides):  # one run a side shows nothing
            goal = next((m.goal for m in metrics if m.name == name and m.goal), None)
            better = {"max": "More is better.", "min": "Less is better."}.get(goal or "", "")
            axis = "% of the first side's median, 90 % interval"
            charts.append(IntervalChart(f"Effect on {name}", axis, bars, better))
    return charts[:12]


def _verdict(first: Results, last: Results, floors: Mapping[str, Floor]) -> list[Child]:
    """The verdict of a gate with the job file's limits, without a confirmation."""
    if not floors:
        return []
    try:
        gate = evaluate(first, last, floors)
    except RsctlError as problem:
        return [paragraph(f"No verdict: {problem.summary}", class_="faint")]
    rows = [
        (
            check.title,
            check.verdict.value,
            str(Floor(check.floor, check.is_relative)),
            "" if check.p_adjusted is None else f"{check.p_adjusted:.2g}",
            check.reason or "",
        )
        for check in gate.checks[:_ROWS]
    ]
    refused = [
        paragraph("Measured under other conditions, and therefore not comparable:"),
        items(map(str, gate.refused)),
    ]
    return [
        element("h3", "Verdict by the job file's gate, without confirmation runs"),
        facts([("verdict", gate.verdict.value)]),
        *(refused if gate.refused else []),
        table(("check", "verdict", "allowed", "p, adjusted", "reason"), rows),
    ]
