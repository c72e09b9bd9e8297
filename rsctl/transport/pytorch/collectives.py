"""Collectives on flat tensors, by the names that this version of torch has for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist


def _first(*names: str) -> Callable[..., Any]:
    """Torch renames now and then, and the old name warns."""
    found: Callable[..., Any] = next(getattr(dist, name) for name in names if hasattr(dist, name))
    return found


all_gather = _first("all_gather_single", "all_gather_into_tensor")
"""all_gather(output, input, group=...)"""

reduce_scatter = _first("reduce_scatter_single", "reduce_scatter_tensor")
"""reduce_scatter(output, input, group=...)"""

all_to_all = dist.all_to_all_single
"""all_to_all(output, input, group=...)"""

REDUCE_SCATTER_NAMES = tuple(
    name for name in ("reduce_scatter_single", "reduce_scatter_tensor") if hasattr(dist, name)
)
