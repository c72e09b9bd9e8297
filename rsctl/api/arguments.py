"""The arguments of the public functions, checked before anything happens.

The command line checks its options itself, with the same limits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from numbers import Real

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.units import Duration
from rsctl.runs.stream.events import TIME_LENGTH

MOST_REPETITIONS = 1000
"""The most runs of a cell, confirmations, decisions or commits."""

_MOST = 2**53  # more lines or runs than any store has, and still an integer of SQLite


def check_count(name: str, value: int | None, least: int = 0, most: int = _MOST) -> None:
    """Raise RsctlError unless an argument is None or an integer within its limits."""
    if value is None:
        return
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or not least <= value <= most:
        is_large = is_integer and value > most
        limits = f"from {least} to {most}" if is_large or most < _MOST else f"of {least} or more"
        raise wrong(name, value, f"is not an integer {limits}", f"give an integer {limits}")


def check_number(name: str, value: float, least: float = float("-inf")) -> None:
    """Raise RsctlError unless an argument is a number, which NaN is not."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not value >= least:
        limits = "" if least == float("-inf") else f" of {least:g} or more"
        raise wrong(name, value, f"is not a number{limits}", f"give a number{limits}")


def check_text(name: str, value: object) -> None:
    """Raise RsctlError unless an argument is text that can be stored."""
    if not isinstance(value, str):
        raise wrong(name, value, "is not a string", "give a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise wrong(name, value, "is not valid Unicode", "check its encoding") from None


def check_path(name: str, value: object) -> str:
    """A path as text, of a string or an object such as a Path. Raises RsctlError for others."""
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str):
        raise wrong(name, value, "is not a path", "give a string or a pathlib.Path")
    return path


def checked_names(name: str, value: Iterable[str]) -> list[str]:
    """Several strings. Raises RsctlError for one string, whose characters are not meant."""
    if isinstance(value, (str, bytes)):
        raise wrong(name, value, "is one string, not a list of strings", f"give [{value!r}]")
    if not isinstance(value, Iterable):
        raise wrong(name, value, "is not a list of strings", "give a list of strings")
    names = list(value)
    for each in names:
        check_text(name, each)
    return names


def moment(name: str, value: datetime | str) -> str:
    """A time in the format of the events: of a datetime, RFC 3339, or a duration ago such as 2h.

    Text without a zone is in UTC, and a datetime without one in local time. Raises RsctlError.
    """
    try:
        if isinstance(value, str):
            time = _ago(value) or datetime.fromisoformat(_as_python_3_10_reads(value))
            time = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
        else:
            time = value
        return f"{time.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}".zfill(TIME_LENGTH)
    except (ValueError, OverflowError, AttributeError):
        why = "is neither a duration such as 10m nor a time such as 2026-01-31T12:00:00Z"
        raise wrong(name, value, why, "give a datetime, a time or a duration") from None


def _as_python_3_10_reads(text: str) -> str:
    """A time with six digits of a fraction, and without the letter Z."""
    return re.sub(r"(?<=\.)\d+", lambda found: found[0][:6].ljust(6, "0"), text).replace(
        "Z", "+00:00"
    )


def _ago(text: str) -> datetime | None:
    try:
        seconds = Duration.parse(text)
    except ValueError:
        return None
    return datetime.now(timezone.utc) - timedelta(seconds=seconds)


def wrong(name: str, value: object, why: str, remedy: str) -> RsctlError:
    """The error of an argument that a function does not take."""
    shown = repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:80]}…"
    return RsctlError(ExitCode.USAGE, error("argument", f"{name}: {shown} {why}", remedy))
