"""A bench with its samples, and its charts: heat maps, runs, effects, scaling, phases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from rsctl.bench.records import BenchRecord, Cell
from rsctl.bench.samples import Sample, quantile
from rsctl.bench.stats import CellSides, effect, interval
from rsctl.bench.summary import (
    CellStatistic,
    cell_statistics,
    format_cell,
    format_trial,
    format_value,
)
from rsctl.results.report.charts import (
    Bar,
    Chart,
    ChartLine,
    DotChart,
    HeatMap,
    IntervalChart,
    LineChart,
    Span,
    Timeline,
    TimelineRow,
    single_values,
)
from rsctl.results.report.overlay_charts import RunCurves, overlay_charts
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import now, seconds_between

METRICS = 6
"""Metrics of a bench that are drawn at most."""

_OF_EVERY_RUN = ("run.time", "run.step", "run.cost", "run.gradient_bytes")
_LONGEST_LABEL = 48  # characters of a row's label that are drawn
_COUNTS = ("workers.count", "workers.processes")
_PHASES = (
    ("run.queue", "queue"),
    ("run.start", "start"),
    ("run.first_step", "to the first metric"),
)


class BenchData:
    """A bench with its runs and their samples, and the costs of the `repeated` runs: those that
    another run of the same repetition replaced.
    """

    def __init__(
        self,
        bench: BenchRecord,
        curves: Mapping[str, RunCurves],
        repeated: Sequence[tuple[float | None, str | None]] = (),
    ) -> None:
        self.bench = bench
        self.curves = curves
        self.repeated = repeated
        self.runs: dict[str, RunRecord] = {name: each.run for name, each in curves.items()}
        self.samples = found = {name: each.samples for name, each in curves.items()}
        self.cells = [
            cell_statistics([found[name] for name in bench.runs_of(index) if name in found])
            for index in range(len(bench.cells))
        ]

    def names(self) -> list[str]:
        """The metrics to show: the job's own, and every run's built-in metrics with data."""
        names = dict.fromkeys(name for cell in self.cells for name in cell)
        own = [name for name in names if not name.startswith("run.")]
        return own[:METRICS] + [n for n in _OF_EVERY_RUN if any(self.values(n))]

    def values(self, name: str) -> list[list[float]]:
        """By cell, the samples of its runs that have one."""
        return [_known(cell.get(name)) for cell in self.cells]

    def about(self, name: str) -> tuple[str, str | None]:
        """The unit and the goal of a metric."""
        found = [cell[name] for cell in self.cells if name in cell]
        unit = next((f.unit for f in found if f.unit), "")
        return unit, next((f.goal for f in found if f.goal), None)

    def title(self, name: str) -> str:
        """A metric with its unit."""
        unit, _ = self.about(name)
        return f"{name} ({unit})" if unit else name


def _known(statistic: CellStatistic | None) -> list[float]:
    return [value for value in statistic.values if value is not None] if statistic else []


def learning_curves(data: BenchData) -> Iterator[Chart]:
    """Each metric of the job over steps and time, if it makes lines: one for each run, in a colour
    for each cell.
    """
    runs = [
        data.curves[trial.run]._replace(label=format_cell(data.bench.cells[trial.cell]))
        for trial in data.bench.latest().values()
        if trial.run in data.curves
    ]
    yield from (chart for chart in overlay_charts(runs) if not single_values(chart))


def matrix_charts(data: BenchData, name: str) -> Iterator[Chart]:
    """Heat maps over the two keys with most values, one for each combination of the others."""
    cells = data.bench.cells
    values = _values_of_keys(cells)
    keys = sorted((k for k in values if len(values[k]) > 1), key=lambda k: -len(values[k]))
    if len(keys) < 2:
        return
    row_key, column_key = keys[0], keys[1]
    unit, goal = data.about(name)
    medians = [quantile(v, 0.5) if v else None for v in data.values(name)]
    better = {"max": "more is better", "min": "less is better"}.get(goal or "", "")
    note = f"Median of the runs of a cell; brighter is more{f'; {better}' if better else ''}."
    for rest in list(product(*(values[k] for k in keys[2:])))[:6]:
        fixed = dict(zip(keys[2:], rest, strict=True))
        grid = [
            [_at(cells, medians, {**fixed, row_key: r, column_key: c}) for c in values[column_key]]
            for r in values[row_key]
        ]
        where = ", ".join(f"{k}={v}" for k, v in fixed.items())
        yield HeatMap(
            title=data.title(name) + (f", {where}" if where else ""),
            unit=unit,
            row_key=row_key,
            rows=values[row_key],
            column_key=column_key,
            columns=values[column_key],
            values=grid,
            note=note,
        )


def _values_of_keys(cells: Sequence[Cell]) -> dict[str, list[str]]:
    keys = list(dict.fromkeys(key for cell in cells for key in cell))
    return {k: list(dict.fromkeys(format_value(c[k]) for c in cells if k in c)) for k in keys}


def _at(
    cells: Sequence[Cell], medians: Sequence[float | None], where: Mapping[str, str]
) -> float | None:
    for cell, value in zip(cells, medians, strict=True):
        if all(k in cell and format_value(cell[k]) == v for k, v in where.items()):
            return value
    return None


def dots_chart(data: BenchData, name: str) -> DotChart:
    """The sample of each run, by cell."""
    labels = [format_cell(cell, _LONGEST_LABEL) for cell in data.bench.cells]
    rows = list(zip(labels, data.values(name), strict=True))
    note = "Each dot is a run, each stroke a median."
    return DotChart(name, data.title(name), rows, note)


def effect_charts(data: BenchData, names: Sequence[str]) -> Iterator[Chart]:
    """The effect of each cell beside the first one, where that has several runs."""
    for name in names:
        first, *others = data.values(name)
        if len(first) < 2:
            continue
        bars = []
        for cell, values in zip(data.bench.cells[1:], others, strict=True):
            pair = [CellSides(first, values)]
            change = effect(pair) if values else None
            ends = interval(pair) if change is not None else None
            low, high = (100 * ends[0], 100 * ends[1]) if ends else (None, None)
            label = format_cell(cell, _LONGEST_LABEL)
            bars.append(Bar(label, None if change is None else 100 * change, low, high))
        yield IntervalChart(
            f"{name} against {format_cell(data.bench.cells[0])}",
            "% of the first cell's median, 90 % interval",
            bars,
        )


def scaling_charts(data: BenchData, name: str) -> Iterator[Chart]:
    """Throughput and scaling efficiency over the number of ranks, for cells that differ in it.

    Only metrics with a unit per second and the goal max are a throughput.
    """
    unit, goal = data.about(name)
    if goal != "max" or not unit.endswith("/s"):
        return
    lines = _throughput_lines(data, name)
    if not lines:
        return
    yield LineChart(f"{name} by ranks", "ranks", f"{name} ({unit})", lines, from_zero=True)
    all_ranks = sorted({ranks for line in lines for ranks, _ in line.points})
    yield LineChart(
        title=f"Scaling efficiency of {name}",
        x="ranks",
        y="% of the efficiency with the fewest ranks",
        lines=[_efficiency(line) for line in lines if line.points[0][1]],
        from_zero=True,
        reference=ChartLine("ideal", [(ranks, 100.0) for ranks in all_ranks]),
    )


def _throughput_lines(data: BenchData, name: str) -> list[ChartLine]:
    """The median throughput by ranks: a line for all cells that differ in their ranks only.

    A line has at least two numbers of ranks.
    """
    groups: dict[str, list[tuple[float, float]]] = {}
    for index, (cell, values) in enumerate(zip(data.bench.cells, data.values(name), strict=True)):
        ranks = _ranks_of(data, index)
        if ranks and values:
            rest = {key: v for key, v in cell.items() if key not in _COUNTS}
            label = format_cell(rest) if rest else name
            groups.setdefault(label, []).append((ranks, quantile(values, 0.5)))
    lines = [ChartLine(label, sorted(points)) for label, points in groups.items()]
    return [line for line in lines if line.points[0][0] < line.points[-1][0]]


def _ranks_of(data: BenchData, cell: int) -> float | None:
    """The ranks of a cell's runs, by the plan of the first of them."""
    known = (data.runs[run] for run in data.bench.runs_of(cell) if run in data.runs)
    ranks = next((run.plan.get("world_size") for run in known), None)
    return float(ranks) if ranks else None


def _efficiency(throughput: ChartLine) -> ChartLine:
    """(T(n) / n) / (T(m) / m) in percent: T is the throughput, n the ranks, m the fewest."""
    fewest, base = throughput.points[0]
    per_rank = base / fewest
    points = [(ranks, 100 * (value / ranks) / per_rank) for ranks, value in throughput.points]
    return ChartLine(throughput.label, points)


def phases_chart(data: BenchData) -> Timeline:
    """How long each run was in each of its phases."""
    rows = []
    for trial in data.bench.latest().values():
        if found := data.samples.get(trial.run):
            label = format_trial(data.bench.cells, trial, _LONGEST_LABEL)
            rows.append(phase_row(label, found, data.runs.get(trial.run)))
    return Timeline("Queue, start, first metric, training", rows)


def phase_row(label: str, found: Mapping[str, Sample], run: RunRecord | None = None) -> TimelineRow:
    """The phases of a run in sequence, as far as known; a phase in progress ends now."""
    spans, at = [], 0.0
    for name, kind in _PHASES:
        value = found[name].value if name in found else None
        if value:
            spans.append(Span(at, at + value, kind))
            at += value
    whole = found["run.time"].value if "run.time" in found else None
    first = found["run.first_step"].value if "run.first_step" in found else None
    left = (whole or 0.0) - (first or 0.0)
    if run is not None and run.ended is None and run.started is not None:
        left = seconds_between(run.created, now()) - at
    if left > 0:
        spans.append(Span(at, at + left, "training"))
    return TimelineRow(label, spans)
