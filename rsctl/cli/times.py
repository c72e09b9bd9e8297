"""Times on the command line."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import typer

from rsctl.job.units import Duration
from rsctl.runs.stream.events import TIME_LENGTH


def parse_since(text: str) -> str:
    """The value of `--since` in the format of the events. Raises typer.BadParameter."""
    try:
        moment = datetime.now(timezone.utc) - timedelta(seconds=Duration.parse(text))
    except ValueError:
        moment = _moment(text)
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}".zfill(TIME_LENGTH)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).astimezone(
            timezone.utc
        )
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is neither a duration such as 10m nor a time such as 2026-01-31T12:00:00Z",
            param_hint="--since",
        ) from None
