"""Sanitizes text of unknown origin for a terminal: control characters cannot act."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # they change the direction of writing
    "\u2028\u2029"  # they begin a line or a paragraph
    "\ud800-\udfff]"  # they cannot be encoded
)
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC and other strings: titles, links, clipboard
    r"|\x1b[ -/]*[0-~]"
)
_COLOR = re.compile(r"\x1b\[[0-9;]*m")


def sanitize(text: str) -> str:
    """A text whose control characters cannot act: our own colours stay, the rest is shown escaped.

    Only for texts that rsctl has put together; for a line of a log use `sanitize_line`.
    """
    if not _CONTROL.search(text):
        return text
    parts = re.split(f"({_COLOR.pattern})", text)
    return "".join(p if _COLOR.fullmatch(p) else _CONTROL.sub(_escaped, p) for p in parts)


def sanitize_line(text: str) -> str:
    """A line of a log, or another text of one line, as a terminal may show it.

    Escape sequences are removed, of a progress bar's states only the last that is not blank is
    kept, and other control characters, those that change the direction of writing among them, are
    shown escaped.
    """
    if text.isprintable():
        return text
    text = text.replace("\n", " ")  # or a job could forge lines
    if not _CONTROL.search(text):
        return text
    text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    return _CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
