"""PyTorch's PowerSGD, with defaults that a short job survives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as torch_powersgd

from rsctl.transport.pytorch.hook import CommHook
from rsctl.transport.pytorch.process_group import ReducerGroup
from rsctl.transport.pytorch.settings import CommSettings

Hook = Callable[[Any, GradBucket], "torch.futures.Future[torch.Tensor]"]


def powersgd_hook(group: dist.ProcessGroup, device: torch.device, comm: CommSettings) -> CommHook:
    """PowerSGD over this group, with error feedback and warm start."""
    state = torch_powersgd.PowerSGDState(
        process_group=group,
        matrix_approximation_rank=comm.powersgd_rank,
        start_powerSGD_iter=comm.powersgd_start,
    )
    hook = torch_powersgd.powerSGD_hook
    return CommHook(state, hook if device.type == "cuda" else one_at_a_time(hook))


def describe(comm: CommSettings) -> str:
    """The settings of PowerSGD as text."""
    return f"powersgd (rank {comm.powersgd_rank}, from step {comm.powersgd_start})"


def orders(state: object, hook: Hook) -> Hook:
    """A script's own hook, one bucket after another if it is PowerSGD over the reducers."""
    if not isinstance(state, torch_powersgd.PowerSGDState):
        return hook
    group = state.process_group or dist.group.WORLD
    return one_at_a_time(hook) if isinstance(group, ReducerGroup) else hook


def one_at_a_time(hook: Hook) -> Hook:
    """A hook that reduces one bucket after another.

    PowerSGD starts further collectives when the first has ended. NCCL's are enqueued at once;
    elsewhere a thread starts them some time later, between those of other buckets, in an order that
    differs between the workers.
    """

    @functools.wraps(hook)
    def one(state: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        future = hook(state, bucket)
        future.wait()
        return future

    return one
