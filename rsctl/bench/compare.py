"""Comparison of results side by side: effect, interval and test, metric by metric, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Optional

import msgspec

from rsctl.bench.differences import Difference
from rsctl.bench.fingerprint import (
    Cell,
    Fingerprint,
    definition_differences,
    fixed_differences,
    shown_differences,
)
from rsctl.bench.formats.html import html_table
from rsctl.bench.results import Results, Series, cell_label, describe_cell
from rsctl.bench.sides import Sides
from rsctl.bench.stats import CellSides, by_both, combine, effect, interval, p_two_sided
from rsctl.runs.stream.formatting import format_change, format_number
from rsctl.runs.stream.sanitize import sanitize_text

_ONE_RUN = "one run per side allows no conclusion"
_NO_CELL = "it does not have this cell"


class Side(msgspec.Struct, kw_only=True):
    """One side of one metric: how many runs have a value, their median, each of them, the unit."""

    n: int
    value: Optional[float]
    values: list[Optional[float]]
    unit: Optional[str] = None

    @property
    def text(self) -> str:
        """The median with its unit; `-` without a value."""
        unit = f" {self.unit}" if self.unit else ""
        return "-" if self.value is None else f"{format_number(self.value)}{unit}"


class Compared(msgspec.Struct, kw_only=True):
    """One metric of one cell (None: across all cells).

    `effect` (the median of all differences of two runs), its 90 % `interval` and the two-sided `p`
    are of the last side against the first, as a part of the first's median. Across all cells a
    side's `n` counts the repetitions that have data in every cell. `remark` says why a value is
    missing.
    """

    name: str
    unit: Optional[str] = None
    goal: Optional[str] = None
    cell: Optional[Cell]
    sides: list[Side]
    effect: Optional[float] = None
    interval: Optional[tuple[float, float]] = None
    p: Optional[float] = None
    remark: Optional[str] = None

    @property
    def where(self) -> str:
        """Its cell, for people."""
        return "all" if self.cell is None else cell_label(self.cell)


class SideAbout(msgspec.Struct, kw_only=True):
    """The kind of a side."""

    label: str
    kind: str
    made: str


class Comparison(msgspec.Struct, kw_only=True):
    """The output of `compare -o json`. `differences` compare the last side with the first."""

    sides: list[SideAbout]
    differences: list[Difference]
    metrics: list[Compared]

    def _repr_html_(self) -> str:
        sides = (f"{n}: {side.kind} {side.label}" for n, side in enumerate(self.sides, 1))
        return html_table("; ".join(sides), comparison_table(self))

    @property
    def remarks(self) -> list[str]:
        """Why something is lacking, each reason once; that of one run a side is of all metrics, and
        a cell that a side does not have is named once.
        """
        remarks = (
            m.remark if m.remark == _ONE_RUN else f"{_subject(m, m.remark)}: {m.remark}"
            for m in self.metrics
            if m.remark
        )
        return list(dict.fromkeys(map(sanitize_text, remarks)))


def comparison_table(comparison: Comparison) -> list[list[str]]:
    """The metrics as rows of text below their head."""
    several = len(comparison.sides) > 1
    head = ["METRIC", "CELL", *(f"{n} MEDIAN" for n, _ in enumerate(comparison.sides, 1))]
    head += ["EFFECT", "90 % INTERVAL", "P"] if several else []
    return [head, *(_compared_row(metric, several) for metric in comparison.metrics)]


def _compared_row(metric: Compared, several: bool) -> list[str]:
    values = [f"{side.text} (n={side.n})" if side.n > 1 else side.text for side in metric.sides]
    row = [metric.name, metric.where, *values]
    if not several:
        return row
    return [*row, *effect_texts(metric)]


def effect_texts(metric: Compared) -> list[str]:
    """The effect, its interval and its p; each is empty if there is none."""
    effect = "" if metric.effect is None else format_change(metric.effect)
    interval = ""
    if metric.interval is not None:
        low, high = (format_change(bound) for bound in metric.interval)
        interval = f"{low.removesuffix(' %')} … {high}"
    return [effect, interval, "" if metric.p is None else f"{metric.p:.2g}"]


def baselines_first(sides: Sequence[Results]) -> list[Results]:
    """The sides in their order, but baselines before the others: nothing else is judged by them."""
    return sorted(sides, key=lambda side: side.kind != "baseline")


def compare(sides: Sequence[Results], names: Sequence[str] = ()) -> Comparison:
    """Compare the last side with the first, all metrics that any side has or those named.

    Baselines come first, wherever they are given.
    """
    sides = baselines_first(sides)
    first, last = sides[0].fingerprint, sides[-1].fingerprint
    return Comparison(
        sides=[SideAbout(label=s.label, kind=s.kind, made=s.made) for s in sides],
        differences=_all_differences(first, last, _cells(sides)) if sides[1:] else [],
        metrics=[m for name in _names(sides, names) for m in _metric(sides, name)],
    )


def _metric(sides: Sequence[Results], name: str) -> list[Compared]:
    """The metric in every cell and, where there are several, across them."""
    found, pairs = [], []
    for cell in _cells(sides):
        series = [side.find(name, cell) for side in sides]
        if not any(s is not None and s.values for s in series):
            continue
        compared, pair = _cell(series, name, cell, sides)
        found.append(compared)
        pairs.append(pair)
    whole = [pair for pair in pairs if pair is not None]
    if len(whole) > 1 and len(whole) == len(pairs) and all(combine(whole, None)):
        found.append(_across(found, whole))
    return found


def _cell(
    series: Sequence[Series | None], name: str, cell: Cell, sides: Sequence[Results]
) -> tuple[Compared, CellSides | None]:
    first_series = next(s for s in series if s is not None)
    compared = Compared(
        name=name,
        unit=first_series.unit,
        goal=first_series.goal,
        cell=cell,
        sides=[_side(s) for s in series],
    )
    first, last = series[0], series[-1]
    if len(series) < 2:
        return compared, None
    if first is None or last is None or not first.known or not last.known:
        compared.remark = _lacking(sides, series, cell)
        return compared, None
    differ = definition_differences(sides[0].fingerprint, sides[-1].fingerprint, name)
    pair = CellSides(first.finite, last.finite)
    _judge(compared, [pair])
    if differ:
        compared.remark = "measured under different conditions: " + "; ".join(map(str, differ))
        compared.effect = compared.interval = compared.p = None
        return compared, None
    for side in sides[1:-1]:  # they are shown beside the first
        if differ := definition_differences(sides[0].fingerprint, side.fingerprint, name):
            others = f"{side.label} was measured under different conditions: "
            others += "; ".join(map(str, differ))
            compared.remark = f"{compared.remark}; {others}" if compared.remark else others
    return compared, pair


def _lacking(sides: Sequence[Results], series: Sequence[Series | None], cell: Cell) -> str:
    """Which sides have no data, by their reasons."""
    labels: dict[str, list[str]] = {}
    for side, one in zip(sides, series, strict=True):
        if one is None or not one.known:
            why = next(iter(one.reasons), None) if one else None
            if side.series and all(other.cell != cell for other in side.series):
                why = _NO_CELL
            labels.setdefault(why or "not measured", []).append(side.label)
    return "; ".join(f"no data in {', '.join(of)}: {why}" for why, of in labels.items())


def _judge(compared: Compared, cells: list[CellSides]) -> None:
    compared.effect = effect(cells)
    if any(len(side) < 2 for side in combine(cells, None)):
        compared.remark = _ONE_RUN
    else:
        compared.interval = interval(cells) if compared.effect is not None else None
        sign = -1 if compared.goal == "min" else 1  # the test knows which runs are slowed down
        sides = combine(cells, by_both)
        compared.p = p_two_sided(Sides(*([sign * value for value in side] for side in sides)))
    if compared.effect is None:
        compared.remark = "the first side's median is zero, so there is no percentage"


def _across(found: Sequence[Compared], cells: list[CellSides]) -> Compared:
    first, last = combine(cells, None)
    between = zip(*(each.sides[1:-1] for each in found), strict=True)
    counts = [len(first), *(min(side.n for side in sides) for sides in between), len(last)]
    compared = Compared(
        name=found[0].name,
        unit=found[0].unit,
        goal=found[0].goal,
        cell=None,
        sides=[Side(n=count, value=None, values=[]) for count in counts],
    )
    _judge(compared, cells)
    return compared


def _subject(metric: Compared, remark: str) -> str:
    if remark.endswith(_NO_CELL):
        return metric.where or "without a matrix"
    return describe_cell(metric.cell, metric.name)


def _side(series: Series | None) -> Side:
    if series is None:
        return Side(n=0, value=None, values=[])
    values = series.known
    middle = median(values) if values else None
    return Side(n=len(values), value=middle, values=series.values, unit=series.unit)


def _cells(sides: Sequence[Results]) -> list[Cell]:
    cells: list[Cell] = []
    for side in sides:
        for known in [*(c.cell for c in side.cells), *(s.cell for s in side.series)]:
            if known not in cells:
                cells.append(known)
    return cells


def _names(sides: Sequence[Results], wanted: Sequence[str]) -> list[str]:
    """The metrics to show; of those of the run itself what all sides have."""
    names = dict.fromkeys(series.name for side in sides for series in side.series)
    names_of_sides = [{s.name for s in side.series if s.known} for side in sides]
    everywhere = set.intersection(*names_of_sides)
    if wanted:
        return [name for name in wanted if name in names]
    return [name for name in names if name in everywhere or not name.startswith("run.")]


def _all_differences(
    first: Fingerprint, last: Fingerprint, cells: Sequence[Cell]
) -> list[Difference]:
    differences = [d for cell in cells for d in fixed_differences(first, last, cell)]
    for name in dict.fromkeys([*first.metrics, *last.metrics]):
        differences += definition_differences(first, last, name)
    return list(dict.fromkeys([*differences, *shown_differences(first, last)]))
