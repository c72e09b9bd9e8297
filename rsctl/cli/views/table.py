"""A table as aligned columns on standard output."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import typer

from rsctl.cli.show import text_width
from rsctl.runs.stream.sanitize import sanitize_text

_GAP = 2
_INDENT = 4
_LEAST_TEXT = 24
"""A long text of the last column is wrapped in at least so many characters of a line."""


def write_table(
    rows: Sequence[Sequence[str]],
    right: Collection[str] = (),
    paint: Mapping[str, Callable[[str], str]] = {},
) -> None:
    """Print the rows, the head first; leaves out a column that is empty in all rows.

    Columns in `right` are aligned on the right; `paint` colours the padded cells of a column. In a
    terminal that is too narrow a row takes several lines, the later ones indented. They end between
    columns; only the text of the last column is wrapped, between words.
    """
    rows = [[sanitize_text(cell) for cell in row] for row in rows]
    columns = [c for c in zip(*rows, strict=True) if any(cell for cell in c[1:])] or []
    widths = [max(map(text_width, column)) for column in columns]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    starts = list(_starts(widths, room))
    for nth, row in enumerate(zip(*columns, strict=True)):
        line, used = "", 0
        for column, cell, width, start in zip(columns, row, widths, starts, strict=True):
            if used and start < used + _GAP:
                typer.echo(line.rstrip())
                line, used = "", 0
            line += " " * (start - used)
            used = start + width
            blank = " " * (width - text_width(cell))
            padded = blank + cell if column[0] in right else cell + blank
            if room is not None and used > room:
                padded = _wrapped(cell, start, room)
            paints = nth and column[0] in paint
            line += paint[column[0]](padded) if paints else padded
        if line.strip():
            typer.echo(line.rstrip())


def _wrapped(text: str, start: int, room: int) -> str:
    """A text that begins at `start` of a line, in lines of whole words."""
    width = max(_LEAST_TEXT, room - start)
    parts = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * start}".join(parts)


def _starts(widths: Sequence[int], room: int | None) -> Iterator[int]:
    """Where each column begins: on a new line if further left than where the one before ends."""
    end = 0
    for nth, width in enumerate(widths, start=1):
        start = end + _GAP if nth > 1 else 0
        least = min(width, _LEAST_TEXT) if nth == len(widths) else width
        if room is not None and start + least > room and nth > 1:
            start = _INDENT
        yield start
        end = start + width
