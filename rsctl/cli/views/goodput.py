"""The goodput of a run as text."""

from __future__ import annotations

from rsctl.api import Goodput, dollars
from rsctl.runs.goodput import CAUSES, NEW_STEPS
from rsctl.runs.stream.events import now, seconds_between
from rsctl.runs.stream.formatting import format_duration

_NEWS = 60.0
"""Seconds after which a view says until when it knows the log."""


def format_goodput(found: Goodput) -> list[str]:
    """The part of new steps, then the other causes, the longest first, then what is not paid.

    Nothing without a step, unless the time costs money.
    """
    if found.share is None and not found.dollars:
        return []
    cost = f" and {dollars(found.dollars)}" if found.dollars is not None else ""
    whole = f"of {format_duration(found.seconds)}{cost}"
    lines = [f"unknown part {whole}: {found.unknown}"]
    if found.share is not None:
        lines = [f"{found.share:.1%} {whole} in new steps"]
    parts = [(part.seconds, cause) for cause, part in found.parts.items() if cause != NEW_STEPS]
    others = [
        f"{CAUSES[cause]} {seconds / found.seconds:.1%}" for seconds, cause in sorted(parts)[::-1]
    ]
    unpaid = [
        f"{CAUSES[cause]} {format_duration(seconds)}"
        for cause, seconds in found.unpaid.items()
        if seconds >= 1
    ]
    lines += [", ".join(others)] if others else []
    lines += [f"before and between, not counted: {', '.join(unpaid)}"] if unpaid else []
    if found.until is not None and seconds_between(found.until, now()) > _NEWS:
        lines.append(f"by the log until {found.until[:19].replace('T', ' ')} UTC")
    return lines
