"""Text for XML 1.0: characters that XML cannot have are replaced, invisible ones escaped."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from rsctl.runs.stream.sanitize import escape_active

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def text(value: str) -> str:
    """Character data, with the line ends that readers of XML make of a carriage return."""
    return escape(_clean(value.replace("\r\n", "\n").replace("\r", "\n")))


def attribute(value: str) -> str:
    """An attribute's value with its quotes; line ends and tabs survive."""
    return quoteattr(_clean(value))


def _clean(value: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", escape_active(value))
