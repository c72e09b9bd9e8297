"""Reads the rank that wrote a line, if several share a replica's log; see runtime/rank_marks.py."""

from __future__ import annotations

import re

from rsctl.node.rank_marks import JSON_KEY

_BEGINS = "["
_MARK = re.compile(r"\[(worker-[0-9]{1,5}/[0-9]{1,4})\](?: |$)")
_LEADING = re.compile(rb"\[worker-[0-9]{1,5}/[0-9]{1,4}\] ")
_KEY = f', "{JSON_KEY}": "'
_JSON_MARK = re.compile(_KEY + r'(worker-[0-9]{1,5}/[0-9]{1,4})"\}$')


def take_mark(replica: str, text: str) -> tuple[str | None, str]:
    """The rank that wrote a line of a replica's log, such as `worker-0/3`, and the line itself.

    None if no rank is named. The chief's log has the output that mpirun brings from all workers; in
    other logs only the replica's own ranks count.
    """
    if text.startswith(_BEGINS):
        match = _MARK.match(text)
        line = text[match.end() :] if match else text
    elif text.startswith("{") and _KEY in text:
        match = _JSON_MARK.search(text)
        line = text[: match.start()] + "}" if match else text
    else:
        return None, text
    if match is None or (replica != "worker-0" and match[1].partition("/")[0] != replica):
        return None, text
    return match[1], line


def leading_mark(line: bytes) -> bytes:
    """The mark at the beginning of a line of a log, with the space after it; empty if none."""
    match = _LEADING.match(line)
    return match[0] if match else b""


def with_mark(rank: str, text: str) -> str:
    """The line with its mark, as `take_mark` reads it."""
    return f"[{rank}] {text}"


def without_marks(lines: str) -> str:
    """Lines, or the states of a progress bar, without the marks that stand at their beginning."""
    if f"{_BEGINS}worker-" in lines:
        lines = re.sub(rf"(?m)^{_MARK.pattern}", "", lines)
    return lines
