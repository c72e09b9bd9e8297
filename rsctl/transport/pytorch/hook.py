"""The one hook that is registered with DDP, and what it leads to.

Annotations in this module are objects and not text, since DDP looks at those of a hook.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._C._distributed_c10d import GradBucket


class Carrier:
    """How the gradients of one model travel: a hook and its state, which may be replaced.

    DDP takes a hook only once. A script that registers its own after ours has been registered
    takes our place here.
    """

    def __init__(self, state: object, hook: Callable[..., Any]) -> None:
        self.state = state
        self.hook = hook

    def replace(self, state: object, hook: Callable[..., Any]) -> None:
        """Let another hook carry the gradients from now on."""
        self.state = state
        self.hook = hook


def dispatch(state: Carrier, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The hook that DDP calls for each bucket."""
    future: torch.futures.Future[torch.Tensor] = state.hook(state.state, bucket)
    return future
