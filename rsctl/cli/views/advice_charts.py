"""Advice as charts: step times by number of reducers, or by the values of a sweep."""

from __future__ import annotations

import typer

from rsctl.api import Advice, SweptAdvice
from rsctl.cli.views.plot import TICK, add_line, new_figure, round_limits
from rsctl.estimate.advice.options import pools_by_machine
from rsctl.results.report.charts import ChartLine, LineChart

_HEIGHT = 12


def advice_chart(advice: Advice) -> LineChart:
    """A line for each type of reducer machine, and the step time without reducers."""
    without = min(o.step_seconds for o in advice.every_option if not o.reducers)
    lines = []
    for pool in pools_by_machine(advice.every_option):
        points = sorted((float(option.reducers), option.step_seconds) for option in pool)
        lines.append(ChartLine(pool[0].reducer_machine or "with reducers", points))
    most = max((x for line in lines for x, _ in line.points), default=1.0)
    return LineChart(
        title=f"{advice.workers} workers on {advice.target}: predicted step",
        x="reducers",
        y="step (s)",
        lines=lines,
        from_zero=True,
        reference=ChartLine("without reducers", [(0.0, without), (most, without)]),
    )


def sweep_chart(swept: SweptAdvice) -> LineChart:
    """The step time without reducers and with the recommendation, by the key's values."""
    xs = _positions(swept.values)
    without = [
        min(o.step_seconds for o in advice.every_option if not o.reducers)
        for advice in swept.advice
    ]
    best = [advice.recommendation.step_seconds for advice in swept.advice]
    return LineChart(
        title=f"predicted step by {swept.key}",
        x=swept.key,
        y="step (s)",
        lines=[
            ChartLine("without reducers", list(zip(xs, without, strict=True))),
            ChartLine("as recommended", list(zip(xs, best, strict=True))),
        ],
        from_zero=True,
    )


def plot_lines(chart: LineChart) -> None:
    """The chart in the terminal."""
    figure = new_figure(chart.x, "s", _HEIGHT)
    lines = [*chart.lines, *([chart.reference] if chart.reference else [])]
    points = [point for line in lines for point in line.points]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    figure.set_x_limits(*round_limits(min(xs), max(xs), figure.width // TICK))
    figure.set_y_limits(*round_limits(0.0, max(ys), _HEIGHT))
    for index, line in enumerate(lines):
        add_line(figure, line, index, len(lines))
    typer.echo(f"\n{chart.title}\n{figure.show(legend=len(lines) > 1)}")


def _positions(values: list[object]) -> list[float]:
    """The values if they are numbers, otherwise their positions in the list."""
    try:
        return [float(str(value)) for value in values]
    except ValueError:
        return [float(index) for index in range(len(values))]
