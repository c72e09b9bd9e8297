"""Reads the states of progress bars as nodes report them; see node/redraws.py."""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Optional

import msgspec
from msgspec.structs import replace

from rsctl.node.rank_marks import JSON_KEY
from rsctl.node.redraws import KIND, MOST_PACKED
from rsctl.node.structured_lines import apart
from rsctl.runs.stream.events import TIME_LENGTH, LogEvent, parse_time
from rsctl.runs.stream.rank_marks import take_mark, with_mark
from rsctl.runs.stream.structured import STRUCTURED

BAR = "\r"
"""How a line of a log begins that is a state of a progress bar which has other states after it."""

_RECORD = f'{STRUCTURED}{KIND}"'
_RECORD_BYTES = _RECORD.encode()
_MOST_MICROSECONDS = 86_400_000_000


class _Record(msgspec.Struct):
    lines: list[str] = []
    states: Optional[bytes] = None
    rank: Optional[str] = msgspec.field(default=None, name=JSON_KEY)


def is_bar_state(text: str) -> bool:
    """Whether a line of a log is a state of a progress bar that is not its last one."""
    return text.startswith(BAR) and BAR not in text[1:]


def lines_apart(events: Iterable[LogEvent]) -> list[LogEvent]:
    """The lines; a record that an older node wrote behind a script's text is a line of its own."""
    separate: list[LogEvent] = []
    for event in events:
        # A cloud's JSON can have half of a surrogate pair, which nothing can encode.
        line = event.text.encode(errors="backslashreplace")
        parts = apart(line).split(b"\n") if STRUCTURED in event.text[1:] else [line]
        separate += [replace(event, text=part.decode()) for part in parts]
    return separate


def logged(events: Iterable[LogEvent]) -> list[LogEvent]:
    """The lines that the log keeps."""
    kept: list[LogEvent] = []
    for event in events:
        record = _record(event.text)
        if record is None:
            kept.append(event)
        else:
            kept += [replace(event, text=text) for text in _lines(record)]
    return kept


def logged_lines(lines: bytes) -> bytes | None:
    """As `logged`, for whole lines of one stream; None if there is nothing to keep."""
    if _RECORD_BYTES not in lines:
        return lines
    kept: list[bytes] = []
    for line in lines.split(b"\n"):
        record = _record(line.decode(errors="replace")) if line.startswith(_RECORD_BYTES) else None
        if record is None:
            kept.append(line)
        else:
            kept += [text.encode(errors="backslashreplace") for text in _lines(record)]
    return b"\n".join(kept) if kept else None


def measured(events: Iterable[LogEvent]) -> list[LogEvent]:
    """The lines that may hold measurements: each state is one, with the time of its arrival."""
    read: list[LogEvent] = []
    for event in events:
        record = _record(event.text)
        if record is None:
            read.append(event)
        else:
            read += _states(event, record)
    return read


def _record(text: str) -> _Record | None:
    if not text.startswith(_RECORD):
        return None
    try:
        return msgspec.json.decode(text, type=_Record)
    except (msgspec.DecodeError, RecursionError):
        return None


def _lines(record: _Record) -> Iterator[str]:
    for line in record.lines:
        text = line.replace("\n", " ")
        yield with_mark(record.rank, text) if record.rank else text


def _states(event: LogEvent, record: _Record) -> Iterator[LogEvent]:
    try:
        packed = zlib.decompressobj().decompress(record.states or b"", MOST_PACKED)
        states = msgspec.json.decode(packed, type=list[tuple[int, str]]) if packed else []
        time = parse_time(event.time)
    except (zlib.error, msgspec.DecodeError, ValueError, RecursionError, binascii.Error):
        return
    rank = event.rank
    if record.rank:
        rank = take_mark(event.replica, with_mark(record.rank, ""))[0] or rank
    for age, text in states:
        at = time - timedelta(microseconds=min(max(age, 0), _MOST_MICROSECONDS))
        stamp = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if len(stamp) == TIME_LENGTH:
            yield replace(event, time=stamp, text=text, rank=rank)
