"""The scale of a chart's y axis: few values far away from all others must not flatten the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rsctl.findings import counted
from rsctl.results.report.charts import LineChart, finite
from rsctl.runs.stream.formatting import format_number

_LOG_FROM, _LOG_TO = 1e3, 1e9  # times the lowest value
_FAR = 30  # times the extent of the middle values
_MIDDLE = 0.96  # of all values
_FEWEST = 10


class Scale(NamedTuple):
    """The ends of an axis, if `beyond` of the values are not within them, and whether it is
    logarithmic."""

    low: float
    high: float
    beyond: int
    is_log: bool


def scale_of(chart: LineChart) -> Scale:
    """The scale that shows most values of a chart's lines."""
    drawn = [*chart.lines, *chart.others, *([chart.reference] if chart.reference else [])]
    values = sorted(y for line in drawn for _, y in finite(line.points))
    if not values:
        return Scale(0.0, 1.0, 0, False)
    whole = Scale(values[0], values[-1], 0, _is_log(chart, values))
    if whole.is_log or chart.is_band or len(values) < _FEWEST:
        return whole
    margin = int(len(values) * (1 - _MIDDLE) / 2) + 1
    low, high = values[margin], values[-margin - 1]
    extent = (high - low) or abs(high) or 1.0
    least, most = low - _FAR * extent, high + _FAR * extent
    within = [value for value in values if least <= value <= most]
    if len(within) == len(values):
        return whole
    is_log = _is_log(chart, within)
    space = 0.0 if is_log else 0.06 * ((within[-1] - within[0]) or abs(within[0]) or 1.0)
    low = 0.0 if chart.from_zero and within[0] >= 0 else within[0] - space
    return Scale(low, within[-1] + space, len(values) - len(within), is_log)


def beyond_note(chart: LineChart) -> str:
    """The values beyond the axis, in one sentence; otherwise empty."""
    scale = scale_of(chart)
    if not scale.beyond:
        return ""
    points = [
        (x, y, line.label)
        for line in (*chart.lines, *chart.others)
        for x, y in finite(line.points)
        if not scale.low <= y <= scale.high
    ]
    if not points:
        return ""
    x, y, label = max(points, key=lambda point: abs(point[1]))
    of = f" of {label}" if chart.lines[1:] or chart.others else ""
    return (
        f"{counted(len(points), 'value')} beyond the axis, marked at its end: the farthest is "
        f"{format_number(y)}{of} at {format_number(x)}."
    )


def _is_log(chart: LineChart, values: Sequence[float]) -> bool:
    low, high = values[0], values[-1]
    return not chart.from_zero and low > 0 and _LOG_FROM <= high / low <= _LOG_TO
