"""Documents in a report: requests, job files, environments."""

from __future__ import annotations

from typing import Any

import msgspec

from rsctl.findings import counted
from rsctl.results.report.html import Markup, preformatted
from rsctl.runs.stream.ndjson import finite

DOCUMENT_LINES = 400
"""Lines of a request or a job file that are shown at most."""


def document(value: Any) -> Markup:
    """Plain data as indented JSON, cut after so many lines, which is then stated."""
    text = msgspec.json.format(msgspec.json.encode(finite(value)), indent=2).decode()
    return text_document(text)


def text_document(text: str) -> Markup:
    """A text, cut after so many lines, which is then stated."""
    lines = text.split("\n")
    left = len(lines) - DOCUMENT_LINES
    more = [f"… {counted(left, 'more line')}"] if left > 0 else []
    return preformatted([*lines[:DOCUMENT_LINES], *more], longest=2000)
