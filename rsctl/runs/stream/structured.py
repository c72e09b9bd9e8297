"""Structured lines: one JSON object on a line of the log, whose first key `rsctl` is its kind.

Programs print them in several ways: with or without spaces, with numbers that JSON does not have.
"""

from __future__ import annotations

import re
from typing import Any, Optional, TypeVar

import msgspec

from rsctl.findings import Finding, warning

T = TypeVar("T")

STRUCTURED = '{"rsctl": "'
"""The beginning of a structured line as the runtime prints it."""

EXAMPLE = f'{STRUCTURED}metrics", "step": 10, "loss": 0.5}}'

_BEGINNING = re.compile(r'\s*\{\s*"rsctl"\s*:\s*"')
_NO_JSON_NUMBER = re.compile(
    r'"(?:[^"\\]|\\.)*"?|([-+]?)(?<![\w.])(?:(nan)|inf(?:inity)?)(?![\w.])', re.IGNORECASE
)
_METRICS_ANYWHERE = re.compile(r"""(["'])rsctl\1\s*:\s*(["'])(metrics?)\2""", re.IGNORECASE)


def may_be_structured(text: str) -> bool:
    """A quick check of a line, or a whole block of lines."""
    return 'rsctl"' in text or "rsctl'" in text


def is_structured(text: str) -> bool:
    """Whether a line begins like a structured line, complete or not."""
    return text.startswith(STRUCTURED) or ('rsctl"' in text and _BEGINNING.match(text) is not None)


def structured(text: str) -> dict[str, Any] | None:
    """The log line as a structured line, or None. Its `rsctl`, a text, is the kind.

    Bare `NaN`, `Infinity`, `nan` and `inf`, which Python and JavaScript print, are taken as the
    texts `nan`, `inf` and `-inf`.
    """
    if not is_structured(text):
        return None
    try:
        record = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    is_ours = isinstance(record, dict) and isinstance(record["rsctl"], str)
    return record if is_ours else None


def record_of(text: str, *kinds: str) -> dict[str, Any]:
    """The structured line of one of these kinds; empty for all other lines."""
    record = structured(text)
    return record if record is not None and record["rsctl"] in kinds else {}


def converted(record: dict[str, Any], kind: type[T]) -> T | None:
    """A structured line as a type; None for an empty record, and for one of another form."""
    try:
        return msgspec.convert(record, kind) if record else None
    except msgspec.ValidationError:
        return None


def unread_line(text: str) -> Finding | None:
    """Why a line that was meant to be structured is not read; None for all other lines.

    Metrics, which scripts print, are recognised at any position in a line.
    """
    match = _METRICS_ANYWHERE.search(text) if may_be_structured(text) else None
    if match is not None:
        reason = _reason(text, match)
        return _unread(f"a line of metrics is ignored: {reason}" if reason else None)
    if is_structured(text) and structured(text) is None:
        return _unread("a line of the runtime is ignored: it is truncated, or it is not valid JSON")
    return None


def _unread(message: str | None) -> Finding | None:
    remedy = f"print it as a separate line of JSON: {EXAMPLE}; to see it: `rsctl logs --grep rsctl`"
    return warning("metric-line", message, remedy) if message else None


def _reason(text: str, found: re.Match[str]) -> str | None:
    """Why this text yields no metrics; None if the line is read."""
    record = structured(text)
    before = text[: found.start()].strip()
    if record is not None and (record["rsctl"] == "metrics" or before != "{"):
        return None
    if "'" in found[0]:
        return "it has single quotes, which are not valid in JSON (json.dumps writes JSON)"
    if found[3] != "metrics":
        return f"its kind is {found[3]!r}, which must be 'metrics'"
    if before == "":
        return "its object does not start on the same line"
    if not before.startswith("{"):
        return "other text precedes it on the same line"
    if before != "{":
        return '"rsctl" must be its first key'
    if not text.rstrip().endswith("}"):
        return "it is truncated, or other text follows it"
    return "it is not valid JSON"


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        quoted = _NO_JSON_NUMBER.sub(_quoted, text)
        if quoted == text:
            raise
        return msgspec.json.decode(quoted)


def _quoted(match: re.Match[str]) -> str:
    """A bare NaN or infinity as a text, a text as it is."""
    if match[1] is None:
        return match[0]
    sign: Optional[str] = "-" if match[1] == "-" else ""
    return '"nan"' if match[2] else f'"{sign}inf"'
