"""The options of commands that can rehearse: --rehearse, --rehearse-with, --behaviour."""

from __future__ import annotations

from typing import Annotated

import typer

from rsctl.api import Rehearsal
from rsctl.cli.behaviour import parse_behaviour
from rsctl.cli.options import Runner

_REHEARSAL = "Rehearsal"

Rehearse = Annotated[
    bool,
    typer.Option(
        "--rehearse",
        rich_help_panel=_REHEARSAL,
        help="Emulate the cloud on this machine; send nothing.",
    ),
]
RehearseWith = Annotated[
    Runner,
    typer.Option(
        "--rehearse-with",
        rich_help_panel=_REHEARSAL,
        help="The runner of nodes. auto: docker if an engine answers, otherwise process.",
    ),
]
Behaviour = Annotated[
    list[str],
    typer.Option(
        "--behaviour",
        metavar="NAME=VALUE",
        rich_help_panel=_REHEARSAL,
        help="Behavior of the cloud, such as preemptions=1; docs/reference/behaviours.md lists "
        "all. Repeatable.",
    ),
]


def require_rehearsal(
    context: typer.Context, rehearse: bool, rehearse_with: str, behaviour: list[str]
) -> None:
    """End with a usage error if an option of a rehearsal is given without --rehearse."""
    if not rehearse and (behaviour or rehearse_with != "auto"):
        option = "--behaviour" if behaviour else "--rehearse-with"
        context.fail(f"{option} requires --rehearse")


def chosen_rehearsal(
    rehearse: bool, rehearse_with: Runner, behaviour: list[str]
) -> Rehearsal | None:
    """The rehearsal that the options ask for, None without --rehearse. Raises RsctlError."""
    return Rehearsal(rehearse_with, parse_behaviour(behaviour)) if rehearse else None
