"""The DDP communication hook of one model, which a script may replace.

Annotations in this module are objects and not text, since DDP looks at those of a hook.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._distributed_c10d import GradBucket

from rsctl.transport.pytorch import recording
from rsctl.transport.pytorch.report import print_once


class CommHook:
    """A communication hook and its state.

    DDP takes a hook only once. A script that registers its own after ours has been registered
    replaces ours here.
    """

    def __init__(self, state: object, hook: Callable[..., Any]) -> None:
        self.state = state
        self.hook = hook
        self.buckets = ""
        """The size of buckets, as text."""
        self.announcement: str | None = None
        """A line that says what is used, to be printed with the first bucket: a script may still
        bring a hook of its own before."""

    def reduce(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Call the hook for a bucket."""
        if self.announcement is not None:
            print_once(self.announcement)
            self.announcement = None
        future: torch.futures.Future[torch.Tensor] = self.hook(self.state, bucket)
        return future

    def replace(self, state: object, hook: Callable[..., Any]) -> None:
        """Call another hook from now on."""
        self.announcement = None
        self.state = state
        self.hook = hook


@dataclass(frozen=True)
class SelectedHook:
    """The hook for a model, None for DDP's own all-reduce, and how to describe it."""

    hook: CommHook | None
    description: list[str]
    compression: str


def dispatch(state: CommHook, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The function that DDP calls for each bucket."""
    recorded = recording.current()
    if recorded is None:
        return state.reduce(bucket)
    return recorded.reduce(state, bucket, state.reduce)
