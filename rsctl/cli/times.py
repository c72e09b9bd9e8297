"""Times on the command line."""

from __future__ import annotations

import typer

from rsctl.api.arguments import moment
from rsctl.findings import RsctlError


def parse_since(text: str) -> str:
    """The value of `--since` in the format of the events. Raises typer.BadParameter."""
    try:
        return moment("since", text)
    except RsctlError as problem:
        message = problem.summary.removeprefix("since: ")
        raise typer.BadParameter(message, param_hint="--since") from None
