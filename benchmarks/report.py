"""What a benchmark found, as a table for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Optional

import msgspec

_HEAD = ("", "unit", "median", "min", "max", "budget")


class Row(msgspec.Struct):
    """One number, measured once or more often. The budget is the most it should be, unless it
    begins with `>`.
    """

    what: str
    unit: str
    median: float
    min: float
    max: float
    budget: Optional[str] = None


class Report(msgspec.Struct):
    """All that one benchmark found."""

    name: str
    about: str
    rows: list[Row] = []
    notes: list[str] = []

    def add(self, what: str, unit: str, values: Iterable[float], budget: str | None = None) -> None:
        """Add one number."""
        known = list(values)
        self.rows.append(Row(what, unit, median(known), min(known), max(known), budget))

    def text(self) -> str:
        """The table, with the notes below it."""
        cells = [_HEAD, *map(_cells, self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [_line(row, widths) for row in cells]
        return "\n".join([f"{self.name}: {self.about}", *lines, *self.notes, ""])


def _cells(row: Row) -> tuple[str, ...]:
    numbers = (number(value) for value in (row.median, row.min, row.max))
    return (row.what, row.unit, *numbers, row.budget or "")


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    aligned = [
        cell.ljust(width) if index < 2 else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(aligned).rstrip()


def number(value: float) -> str:
    """Three significant digits; whole from 100 on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")
