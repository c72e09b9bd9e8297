"""A table as aligned columns on standard output."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from rsctl.runs.stream.sanitize import sanitize_text


def write_table(rows: Sequence[Sequence[str]]) -> None:
    """Print the rows, the head first; leaves out a column that is empty in all rows."""
    rows = [[sanitize_text(cell) for cell in row] for row in rows]
    columns = [c for c in zip(*rows, strict=True) if any(cell for cell in c[1:])] or []
    widths = [max(map(len, column)) for column in columns]
    for row in zip(*columns, strict=True):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo(line.rstrip())
