"""How a training process ends while the binding is active."""

from __future__ import annotations

import atexit
import glob
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from rsctl.transport.pytorch.report import finding, rank
from rsctl.transport.pytorch.settings import Wishes

_GLOO_THREAD = "gloo"
_SETTLE_SECONDS = 1.0
_LOOK_SECONDS = 0.002
_CALM_LOOKS = 3


def destroyer(real: Callable[..., Any]) -> Callable[..., Any]:
    """A `destroy_process_group` that takes leave of the reducers before the last group goes."""

    def destroy_process_group(group: Any = None) -> None:
        if group is None or group is dist.group.WORLD:
            _leave()
        real(group)

    return destroy_process_group


def at_exit(wishes: Wishes) -> None:
    """Arrange that this process ends in order when its script has ended."""
    atexit.register(_end, wishes)


def _end(wishes: Wishes) -> None:
    """Take leave, and let torch's threads finish while the interpreter is still there.

    A gloo thread that lets go of its last collective after the interpreter has gone aborts the
    process, which then ends with a signal although its script has succeeded. Destroying the groups
    does not help: these threads live as long as a model holds its group.
    """
    _leave()
    _tell_unused(wishes)
    _settle()


def _settle() -> None:
    """Wait, for a second at most, until gloo's threads have nothing to do. Linux only."""
    until = time.monotonic() + _SETTLE_SECONDS
    calm = 0
    while calm < _CALM_LOOKS and time.monotonic() < until:
        # Sleeping also gives up the interpreter's lock, which such a thread may wait for.
        time.sleep(_LOOK_SECONDS)
        calm = 0 if _is_gloo_busy() else calm + 1


def _is_gloo_busy() -> bool:
    """Whether a thread of gloo is running, or is about to."""
    for stat in glob.glob("/proc/self/task/*/stat"):
        try:
            name, _, state = pathlib.Path(stat).read_text().rpartition(") ")
        except OSError:
            continue  # It has just ended.
        if _GLOO_THREAD in name and not state.startswith("S"):
            return True
    return False


def _leave() -> None:
    reducing = sys.modules.get("rsctl.transport.pytorch.reducing")
    if reducing is not None:
        reducing.leave()


def _tell_unused(wishes: Wishes) -> None:
    """Say that compression was asked for and had nothing to work on."""
    from rsctl.transport.pytorch import ddp

    if wishes.compression != "none" and not ddp.dressed and dist.is_initialized() and rank() == 0:
        finding(
            "warning",
            "comm-unapplied",
            f"comm.compression: {wishes.compression} was not applied: the script made no "
            "DistributedDataParallel",
            "Remove comm.compression, or wrap the model in DistributedDataParallel.",
        )
