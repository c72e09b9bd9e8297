"""Conversions between Google's timestamps and those of events. Pure.

Google's are RFC 3339 in UTC with none to nine digits of a second's fraction. Here they are written
with all nine, 30 characters, so that they compare as text; an event's time has six, 27 characters.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

from rsctl.runs.stream.events import TIME_LENGTH

_FORM = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)", re.ASCII)


def nanosecond_time(text: Any) -> str | None:
    """A time with nine digits; None if it is not one."""
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    return f"{match[1]}.{match[2] or '':0<9}Z"


def event_time(text: Any) -> str | None:
    """A time in the format of events; None if it is invalid."""
    stamp = nanosecond_time(text)
    return stamp and f"{stamp[: TIME_LENGTH - 1]}Z"


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as a time with nine digits."""
    whole = datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{int((seconds - int(seconds)) * 1e9):09}Z"


def seconds_of(text: Any) -> float | None:
    """Seconds since 1970, to the microsecond; None if the time is invalid."""
    stamp = nanosecond_time(text)
    if stamp is None:
        return None
    try:
        moment = datetime.strptime(stamp[:26], "%Y-%m-%dT%H:%M:%S.%f")
    except ValueError:
        return None
    return moment.replace(tzinfo=timezone.utc).timestamp()
