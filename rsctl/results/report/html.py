"""HTML as text: every text is escaped and cleaned of control characters unless it is `Markup`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from rsctl.runs.stream.sanitize import sanitize_line

LONGEST = 1000
"""Characters of one line of a job that are shown."""

_LONG = 48  # characters of a cell of a table that may be broken into lines
_LOG_LINE = 400
_NONCHARACTERS = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")
_VOID = frozenset({"meta", "br", "input"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


NONE = "\u2013"
"""Stands in a cell of a table that has no value."""

Child = str | None
"""The allowed content of an element; None allows nothing."""


def plain(text: object, longest: int = LONGEST) -> str:
    """One line of any text without control characters, cut to a length, which is then stated."""
    line = str(text)
    whole = len(line)
    if whole > longest:
        line = line[: 4 * longest]  # the rest cannot be shown anyway, and may be megabytes
    line = _NONCHARACTERS.sub("\ufffd", sanitize_line(line))
    if whole <= longest and len(line) <= longest:
        return line
    return f"{line[:longest]} … ({whole:,} characters)"


def element(tag: str, *children: Child, **attributes: str | None) -> Markup:
    """An element. Attributes are written with `_` for `-`; `class_` is `class`."""
    names = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    head = "".join(
        f' {name}="{escape(plain(value), quote=True)}"'
        for name, value in names.items()
        if value is not None
    )
    if tag in _VOID:
        return Markup(f"<{tag}{head}>")
    return Markup(f"<{tag}{head}>{join(children)}</{tag}>")


def join(children: Iterable[Child]) -> Markup:
    """Join children; escapes everything that is not markup."""
    return Markup("".join(c if isinstance(c, Markup) else _escaped(c) for c in children if c))


def _escaped(text: str) -> str:
    return escape(plain(text), quote=False)


def preformatted(lines: Iterable[object], longest: int = _LOG_LINE) -> Markup:
    """Lines of a log or of a document, each by itself free of control characters."""
    body = "\n".join(escape(plain(line, longest), quote=False) for line in lines)
    return Markup(f'<pre tabindex="0">{body}</pre>')


def table(
    head: Sequence[object],
    rows: Sequence[Sequence[object]],
    class_: str = "data",
    only_filled: bool = False,
) -> Markup:
    """A table that scrolls by itself where it is wider than the page; None is a dash.

    With `only_filled` it has no column without any value.
    """
    if only_filled:
        filled = [
            i for i in range(len(head)) if any(row[i] not in (None, "", NONE) for row in rows)
        ]
        head, rows = [head[i] for i in filled], [[row[i] for i in filled] for row in rows]
    titles = [element("th", str(title), scope="col", class_=_length(title)) for title in head]
    body = [element("tr", *(_cell(cell, index) for index, cell in enumerate(row))) for row in rows]
    parts = [element("thead", element("tr", *titles))] if any(head) else []
    inner = element("table", *parts, element("tbody", *body), class_=class_)
    return element("div", inner, class_="scroll", tabindex="0")


def _cell(value: object, index: int) -> Markup:
    text = value if isinstance(value, str) else NONE if value is None else str(value)
    if index == 0:
        return element("th", text, scope="row", class_=_length(text))
    return element("td", text, class_=_length(text))


def _length(text: object) -> str | None:
    """The class of a cell whose text is long, which the browser may break."""
    return "long" if len(str(text)) > _LONG and not isinstance(text, Markup) else None


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """Names with their values; pairs whose value is None are left out."""
    rows = [(name, value) for name, value in pairs if value is not None]
    return table(("", ""), rows, class_="facts")


def details(summary: str, *children: Child) -> Markup:
    """Something that is folded until it is asked for."""
    return element("details", element("summary", summary), *children)


def section(title: str, *children: Child, level: int = 3) -> Markup:
    """A part of a section of the page with its heading."""
    return element("section", element(f"h{level}", title), *children)


def paragraph(*children: Child, class_: str | None = None) -> Markup:
    """A paragraph."""
    return element("p", *children, class_=class_)


def items(texts: Iterable[Child]) -> Markup:
    """A list."""
    return element("ul", *(element("li", text) for text in texts))
