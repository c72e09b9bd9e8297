"""Whether the ranks have exchanged anything but barriers.

A script may form its process group and then forget to wrap its model: each rank trains by itself,
and nothing fails. PyTorch numbers the collectives of each group, also those that run in C++.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch.distributed as dist

from rsctl.transport.pytorch.wrapping import replace_function

_OTHERS = ("horovod", "mpi4py", "cupy", "ray")
"""Modules by which ranks may exchange data without PyTorch."""


class _Counted:
    """The barriers of this process, the operations that it has waited for, barriers among them,
    and the collectives of groups that have ended; None for these where a backend does not tell.
    """

    barriers = 0
    waits = 0
    ended: int | None = 0


def watch() -> None:
    """Count barriers from now on."""
    replace_function("barrier", _counting)


def note_wait() -> None:
    """Note that the process has waited for an operation, such as a message between two ranks."""
    _Counted.waits += 1


def note_end(groups: Iterable[Any]) -> None:
    """Note the collectives of groups that are about to end."""
    _Counted.ended = _with_collectives(groups)


def are_none() -> bool:
    """Whether it is certain that this rank has exchanged nothing but barriers."""
    total = _with_collectives(list(dist.distributed_c10d._world.pg_map))
    is_alone = total is not None and max(total, _Counted.waits) <= _Counted.barriers
    return is_alone and not any(name in sys.modules for name in _OTHERS)


def _with_collectives(groups: Iterable[Any]) -> int | None:
    """The collectives of ended groups and of these."""
    if _Counted.ended is None:
        return None
    try:
        found = [group._get_backend(device) for group in groups for device in group._device_types]
        backends = {id(each): each for each in found}  # one may serve several kinds of device
        numbers = [int(each._get_sequence_number_for_group()) for each in backends.values()]
        return sum(numbers, _Counted.ended)
    except Exception:  # noqa: BLE001 - a backend without numbers, or another version of torch
        return None


def _counting(real: Callable[..., Any]) -> Callable[..., Any]:
    def barrier(*args: Any, **kwargs: Any) -> Any:
        _Counted.barriers += 1
        return real(*args, **kwargs)

    return barrier
