"""Tables in notebooks: what `_repr_html_` returns. Every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rsctl.runs.stream.sanitize import sanitize_document


def html_table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """A table below a title; the first row is the head."""
    head, *others = rows
    lines = [_row("th", head), *(_row("td", row) for row in others)]
    return f"<p>{_safe(title)}</p><table>{''.join(lines)}</table>"


def _row(kind: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{_safe(cell)}</{kind}>' for cell in cells)}</tr>"


def _safe(text: str) -> str:
    return escape(sanitize_document(text))
