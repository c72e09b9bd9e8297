"""What a report has of several runs, benches and baselines side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rsctl.bench.compare import Compared, Comparison, compare
from rsctl.bench.gate import evaluate
from rsctl.bench.results import Results, cell_label
from rsctl.bench.verdict import Floor
from rsctl.findings import RsctlError
from rsctl.report.charts import Bar, Chart, IntervalChart
from rsctl.report.html import NONE, Child, details, element, facts, items, paragraph, table
from rsctl.report.page import Page
from rsctl.stream.formatting import format_number

_SIDES = 6
"""Sides that have a column of their own; the table of runs has all."""

_ROWS = 120
_SHOWN = ("run.time", "run.step", "run.cost")


def add_comparison(page: Page, sides: Sequence[Results], floors: Mapping[str, Floor]) -> None:
    """The last side against the first, metric by metric and cell by cell; a verdict by floors."""
    comparison = compare(sides)
    first, last = comparison.sides[0], comparison.sides[-1]
    shown = [m for m in comparison.metrics if not m.name.startswith("run.") or m.name in _SHOWN]
    page.add(
        "Comparison",
        paragraph(
            f"{last.kind} {last.label} against {first.kind} {first.label}. The effect is the "
            "median of all differences of two runs as a part of the first side's median, with a "
            "90 % interval and a two-sided exact permutation test.",
            class_="faint",
        ),
        *_differences(comparison),
        _table(comparison, shown),
        page.figures(_charts(shown)),
        _others(comparison, shown),
        *_verdict(sides[0], sides[-1], floors),
    )


def _differences(comparison: Comparison) -> list[Child]:
    if not comparison.differences:
        return []
    rows = [(d.name, _known(d.baseline), _known(d.candidate)) for d in comparison.differences[:60]]
    title = f"They differ in {len(comparison.differences)} things beside what was measured"
    return [details(title, table(("", "first", "last"), rows))]


def _known(value: object) -> str:
    return "not known" if value is None else str(value)


def _others(comparison: Comparison, shown: Sequence[Compared]) -> Child:
    others = [metric for metric in comparison.metrics if metric not in shown]
    return details("Phases of the runs", _table(comparison, others)) if others else None


def _table(comparison: Comparison, metrics: Sequence[Compared]) -> Child:
    sides = comparison.sides
    columns = [*range(len(sides))] if len(sides) <= _SIDES else [0, len(sides) - 1]
    head = ["metric", "cell", *(f"{sides[i].kind} {sides[i].label}" for i in columns)]
    rows = [_row(m, columns) for m in metrics[:_ROWS]]
    return table([*head, "effect", "90 % interval", "p", "remark"], rows)


def _row(metric: Compared, columns: Sequence[int]) -> list[str]:
    unit = f" {metric.unit}" if metric.unit else ""
    sides = [metric.sides[i] for i in columns]
    values = [
        NONE if s.value is None else f"{format_number(s.value)}{unit} (n={s.n})" for s in sides
    ]
    interval = ""
    if metric.interval is not None:
        interval = f"{_percent(metric.interval[0])} … {_percent(metric.interval[1])}"
    return [
        *(metric.name, _cell(metric), *values),
        "" if metric.effect is None else _percent(metric.effect),
        *(interval, "" if metric.p is None else f"{metric.p:.2g}", metric.remark or ""),
    ]


def _percent(part: float) -> str:
    return f"{100 * part:+.3g} %"


def _cell(metric: Compared) -> str:
    return "all cells" if metric.cell is None else cell_label(metric.cell) or NONE


def _charts(metrics: Sequence[Compared]) -> list[Chart]:
    charts: list[Chart] = []
    for name in dict.fromkeys(m.name for m in metrics):
        bars = [
            Bar(
                _cell(m) if _cell(m) != NONE else name,
                100 * m.effect,
                *((100 * m.interval[0], 100 * m.interval[1]) if m.interval else ()),
            )
            for m in metrics
            if m.name == name and m.effect is not None
        ]
        if bars:
            goal = next((m.goal for m in metrics if m.name == name and m.goal), None)
            better = {"max": "More is better.", "min": "Less is better."}.get(goal or "", "")
            axis = "% of the first side's mean, 90 % interval"
            charts.append(IntervalChart(f"Effect on {name}", axis, bars, better))
    return charts[:12]


def _verdict(first: Results, last: Results, floors: Mapping[str, Floor]) -> list[Child]:
    """What a gate by the floors of the job file would decide, without a confirmation."""
    if not floors:
        return []
    try:
        gate = evaluate(first, last, floors)
    except RsctlError as problem:
        return [paragraph(f"No verdict: {problem}", class_="faint")]
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
        paragraph("Measured otherwise, and so not comparable:"),
        items(map(str, gate.refused)),
    ]
    return [
        element("h3", "Verdict by the job file's gate, without a confirmation"),
        facts([("verdict", gate.verdict.value)]),
        *(refused if gate.refused else []),
        table(("check", "verdict", "allowed", "p, adjusted", "reason"), rows),
    ]
