"""The section of a report with the decision of a gate, which comes before all measurements."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from rsctl.bench.checks import MetricCheck
from rsctl.bench.decision import Decision
from rsctl.bench.differences import Difference
from rsctl.bench.formats.text import HEAD, check_row
from rsctl.bench.results import cell_label
from rsctl.findings import counted
from rsctl.job.gate_checks import metric_of
from rsctl.results.report.charts import Chart, ChartLine, IntervalChart, LineChart, effect_bar
from rsctl.results.report.html import Child, details, facts, items, paragraph, table
from rsctl.results.report.page import Page

_ROWS = 120
_FEW = 10
_DIFFERENCES = 60
_CHARTS = 12


def add_gate(page: Page, decision: Decision) -> None:
    """The verdict, both sides and every check, the worst first."""
    gate = decision.gate
    sides = [
        ("baseline", gate.baseline),
        ("candidate", f"bench {gate.candidate}"),
        ("ran", "in turn" if gate.against else "apart"),
        ("confirmed by", f"bench {gate.confirmation}" if gate.confirmation else "no further runs"),
        ("decided", f"{decision.time[:19].replace('T', ' ')} UTC"),
    ]
    page.add(
        f"Gate: {gate.verdict.value}",
        paragraph(gate.headline),
        facts(sides),
        *_listed("The baseline is for a different measurement:", gate.refused),
        *_checks(gate.worst_first),
        *_listed("Better than the baseline by more than it may be worse:", gate.outdated),
        page.figures(_curves(gate.worst_first)),
        page.figures(_charts(gate.checks)) if gate.against else None,
        *_differences(gate.differences),
    )


def _listed(title: str, entries: Sequence[object]) -> list[Child]:
    return [paragraph(title), items(map(str, entries))] if entries else []


def _checks(checks: Sequence[MetricCheck]) -> list[Child]:
    if not checks:
        return []
    head = [*(name.lower() for name in HEAD[:-1]), "p, adjusted", "runs", "reason"]
    rows = [[*check_row(c), _runs(c), c.reason or ""] for c in checks[:_ROWS]]
    left = len(checks) - _ROWS
    more = paragraph(f"{counted(left, 'more check')} not shown.") if left > 0 else None
    return [table(head, rows, only_filled=True), more]


def _runs(check: MetricCheck) -> str:
    if check.pairs is not None:
        return counted(check.pairs, "pair")
    return f"{check.runs[0]} and {check.runs[1]}" if any(check.runs) else ""


def _charts(checks: Sequence[MetricCheck]) -> list[Chart]:
    """The effects of each metric; where sides ran apart, the comparison has the same ones."""
    charts: list[Chart] = []
    for name in dict.fromkeys(check.metric for check in checks):
        known = [c for c in checks if c.metric == name and c.is_relative and c.effect is not None]
        bars = [
            effect_bar(
                "all cells" if c.cell is None else cell_label(c.cell) or name, c.effect, c.interval
            )
            for c in known
        ]
        if any(max(c.runs) > 1 for c in known):
            axis = "% of the baseline's median, 90 % interval"
            charts.append(IntervalChart(f"Effect on {name}, by pairs", axis, bars))
    return charts[:_CHARTS]


def _curves(checks: Sequence[MetricCheck]) -> list[Chart]:
    """The curves of both sides, by the medians of their runs."""
    charts: list[Chart] = []
    for check in checks:
        sides = {
            "baseline": [(part.middle, part.baseline) for part in check.parts],
            "candidate": [(part.middle, part.value) for part in check.parts],
        }
        if check.parts:
            title = f"{replace(check, steps=None).title}, medians of {_runs(check)}"
            title += " runs" if check.pairs is None else ""
            lines = [ChartLine(side, points) for side, points in sides.items()]
            charts.append(LineChart(title, "step", check.unit or metric_of(check.metric), lines))
    return charts[:_CHARTS]


def _differences(differences: Sequence[Difference]) -> list[Child]:
    if len(differences) <= _FEW:
        return _listed("The sides differ in:", differences)
    title = f"The sides differ in {len(differences)} things"
    return [details(title, items(map(str, differences[:_DIFFERENCES])))]
