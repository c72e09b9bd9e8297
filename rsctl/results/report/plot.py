"""The area of a chart: axes with their ticks, and shapes in the chart's own units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from rsctl.results.report import palette
from rsctl.results.report.canvas import (
    Anchor,
    Drawing,
    Marks,
    Paint,
    Path,
    Points,
    Shape,
    Text,
    text_width,
)

ROUND = (1, 2, 2.5, 5, 10)
"""The steps between ticks, times a power of ten."""

HUGE = 1e100
"""Values beyond it, and as near to 0, are drawn as if they were it, since their differences may not
be numbers."""

_DECADES = 6
_GAP = 6.0


@dataclass
class Axis:
    """The ends of an axis, and its ticks with their labels."""

    low: float = 0.0
    high: float = 1.0
    is_log: bool = False
    ticks: Sequence[tuple[float, str]] = ()
    has_grid: bool = False
    has_line: bool = True
    has_marks: bool = True
    """Whether ticks have a short line."""
    size: float = 11.0
    """The size of the labels."""

    def span(self, values: Sequence[float], margin: float) -> None:
        """From the lowest to the highest of these values, with a margin as part of the extent."""
        low, high = min(values, default=0.0), max(values, default=1.0)
        if self.is_log:
            room = margin * log10(high / low)
            self.low, self.high = low / 10**room, high * 10**room
        elif low == high:
            room = abs(low) * 0.1 or 1.0
            self.low, self.high = low - room, high + room
        else:
            room = margin * (high - low)
            self.low, self.high = low - room, high + room

    def part(self, value: float) -> float:
        """Where a value is between the ends, as a part of the axis."""
        if self.is_log:
            return log10(max(value, 1 / HUGE) / self.low) / log10(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def mark(self, most: int, text_of: Callable[[float], str], is_whole: bool = False) -> None:
        """Give it ticks at round values, `most` intervals between them at most."""
        values = decades(self.low, self.high) if self.is_log else None
        if values is None:
            low, high = sorted((self.low, self.high))
            values = round_values(low, high, most, is_whole)
        self.ticks = [(value, text_of(value)) for value in values]


class Plot:
    """A chart's area with what is drawn in it; `drawing` places all of it.

    Set the ends of the axes before anything else is drawn.
    """

    def __init__(self) -> None:
        self.across = Axis(has_grid=True)
        self.up = Axis()
        self.title = ""
        self.x_title = ""
        self._place: list[Callable[[_Frame], Shape]] = []

    def line(
        self,
        points: Points,
        color: Paint,
        width: float,
        dashes: Sequence[float] = (),
        opacity: float = 1.0,
    ) -> None:
        """Draw a line through points; what is beyond the axes is cut off."""
        self._place.append(
            lambda frame: Path(frame.points(points), color, width, opacity, dashes, True)
        )

    def area(self, points: Points, color: Paint, opacity: float = 1.0) -> None:
        """Fill the area within these points."""
        self._place.append(
            lambda frame: Path(frame.points(points), color, opacity=opacity, is_clipped=True)
        )

    def box(
        self, left: float, right: float, low: float, high: float, color: Paint, opacity: float = 1.0
    ) -> None:
        """Fill a rectangle."""
        self.area([(left, low), (right, low), (right, high), (left, high)], color, opacity)

    def marks(
        self,
        points: Points,
        shape: str,
        size: float,
        color: Paint,
        opacity: float = 1.0,
        is_outlined: bool = False,
    ) -> None:
        """Draw a mark at each point."""
        self._place.append(
            lambda frame: Marks(frame.points(points), shape, size, color, opacity, is_outlined)
        )

    def text(
        self,
        x: float | None,
        y: float | None,
        text: str,
        size: float,
        color: Paint = palette.INK,
        anchor: Anchor = "start",
        lift: float | None = None,
        has_halo: bool = False,
    ) -> None:
        """Write a text: at the left end without an `x`, and at the upper end without a `y`.

        `lift` is how far its baseline is above the point; without it its middle is there.
        """
        up = -0.36 * size if lift is None else lift

        def place(frame: _Frame) -> Shape:
            left = frame.left if x is None else frame.x(x)
            below = frame.top + size if y is None else frame.y(y)
            return Text(left, below - up, text, size, color, anchor, has_halo=has_halo)

        self._place.append(place)

    def drawing(self, width: float, height: float, above: float = 0, below: float = 0) -> Drawing:
        """All of it in a drawing of this size, with some room left free above and below."""
        labels = [text_width(label, self.up.size) for _, label in self.up.ticks]
        last = text_width(self.across.ticks[-1][1], self.across.size) if self.across.ticks else 0.0
        frame = _Frame(
            self,
            left=max(labels, default=0.0) + (_GAP + 4 if labels else 8),
            right=width - max(8.0, last / 2),
            top=above + (22 if self.title else 10),
            bottom=height - below - (38 if self.x_title else 22),
        )
        made = Drawing(width, height, (frame.left, frame.top, frame.right, frame.bottom))
        made.shapes += [*frame.grid(), *(place(frame) for place in self._place), *frame.axes()]
        return made


@dataclass
class _Frame:
    plot: Plot
    left: float
    right: float
    top: float
    bottom: float

    def x(self, value: float) -> float:
        return self.left + self.plot.across.part(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - self.plot.up.part(value) * (self.bottom - self.top)

    def points(self, points: Points) -> Points:
        return [(self.x(x), self.y(y)) for x, y in points]

    def grid(self) -> list[Shape]:
        made: list[Shape] = []
        if self.plot.across.has_grid:
            for value, _ in self.plot.across.ticks:
                at = self.x(value)
                made.append(Path([(at, self.top), (at, self.bottom)], palette.GRID, 0.7))
        if self.plot.up.has_grid:
            for value, _ in self.plot.up.ticks:
                at = self.y(value)
                made.append(Path([(self.left, at), (self.right, at)], palette.GRID, 0.7))
        return made

    def axes(self) -> list[Shape]:
        """The lines, ticks and titles: first of the axis across."""
        plot, made = self.plot, list[Shape]()
        corner = (self.left, self.bottom)
        if plot.across.has_line:
            made.append(Path([corner, (self.right, self.bottom)], palette.FAINT, 0.8))
        for value, label in plot.across.ticks:
            at = self.x(value)
            if plot.across.has_marks:
                made.append(Path([(at, self.bottom), (at, self.bottom + 3.5)], palette.FAINT, 0.8))
            below = self.bottom + 5 + plot.across.size
            made.append(Text(at, below, label, plot.across.size, anchor="middle"))
        if plot.x_title:
            middle = (self.left + self.right) / 2
            made.append(Text(middle, self.bottom + 33, plot.x_title, 11, anchor="middle"))
        if plot.up.has_line:
            made.append(Path([corner, (self.left, self.top)], palette.FAINT, 0.8))
        for value, label in plot.up.ticks:
            at = self.y(value)
            if plot.up.has_marks:
                made.append(Path([(self.left - 3.5, at), (self.left, at)], palette.FAINT, 0.8))
            size = plot.up.size
            made.append(Text(self.left - _GAP, at + 0.36 * size, label, size, anchor="end"))
        if plot.title:
            made.append(Text(self.left, self.top - 8, plot.title, 11, palette.FAINT))
        return made


def drawable(value: float) -> float:
    """A value within what can be drawn."""
    near = max(-HUGE, min(HUGE, value))
    return near if abs(near) >= 1 / HUGE else 0.0


def round_values(low: float, high: float, most: int, is_whole: bool = False) -> list[float]:
    """Round values from `low` to `high`, `most` intervals between them at most."""
    least = (high - low) / most
    unit = 10.0 ** floor(log10(least))
    steps = [size * power * unit for power in (1, 10, 100) for size in ROUND]
    if is_whole:
        steps = [step for step in (*steps, 1.0, 2.0, 5.0) if step >= 1 and step == int(step)]
    step = min(step for step in steps if step >= least * (1 - 1e-9))
    if low + step == low or high - step == high:
        return [low]
    first = ceil(low / step - 1e-9)
    values = [(first + index) * step for index in range(most + 2)]
    return [value for value in values if value <= high + step * 1e-9]


def decades(low: float, high: float) -> list[float] | None:
    """Powers of ten from `low` to `high`; None if there are fewer than two."""
    first, last = ceil(log10(low)), floor(log10(high))
    every = max(1, ceil((last - first + 1) / _DECADES))
    values = [10.0**power for power in range(first, last + 1, every)]
    return values if values[1:] else None


def tick(value: float) -> str:
    """A tick's label: whole numbers with their thousands."""
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e8 else f"{value:g}"


def tick_of(extent: float) -> Callable[[float], str]:
    """Labels with as many digits as the extent of the axis needs."""
    digits = max(0, min(8, 2 - floor(log10(extent)) if extent > 0 else 2))

    def label(value: float) -> str:
        if value and (abs(value) >= 1e8 or extent < 1e-5):
            figures = 3 + floor(log10(abs(value))) - floor(log10(extent))
            return f"{value:,.{min(15, max(3, figures))}g}"
        text = f"{value:,.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text

    return label
