"""Terms for ends of processes, without the patterns by which a diagnosis finds the cause."""

from __future__ import annotations

from signal import Signals
from typing import NamedTuple, Optional

LOST_PEER = "peer"
"""The code of a cause that is an effect of another replica's earlier failure."""


class Killer(NamedTuple):
    """Information on who ended a process with a signal.

    `out_of_memory` is whether the kernel killed processes there because memory was exhausted, None
    if unknown; `command` is the command of another sender, such as `docker kill`.
    """

    out_of_memory: Optional[bool] = None
    command: Optional[str] = None


def signal_name(number: int) -> str | None:
    """`SIGKILL` for 9; None for a number that is not a signal here."""
    try:
        return Signals(number).name
    except ValueError:
        return None
