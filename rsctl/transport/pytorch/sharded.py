"""FSDP: what reducers do not speed up is said, and what they can is here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rsctl.transport.pytorch.report import say_once


def teller(real: Callable[..., Any]) -> Callable[..., Any]:
    """A `reduce_scatter_single` that says once that reducers have no part in it."""

    def reduce_scatter(*args: Any, **kwargs: Any) -> Any:
        say_once(
            "sharded gradients (FSDP): reduce-scatter and all-gather travel as without reducers; "
            "only an all-reduce between nodes can use them (all_reduce_hook)"
        )
        return real(*args, **kwargs)

    return reduce_scatter


def all_reduce_hook() -> Callable[[torch.Tensor], None]:
    """A hook for FSDP2's `set_all_reduce_hook`, where each node holds all shards.

    It averages what FSDP has reduced inside the node over all nodes, by the reducers. All workers
    must call this together, after `init_process_group`. Raises BindingError if the environment
    names no reducers.
    """
    from rsctl.transport.pytorch import reducing

    return reducing.between_nodes()
