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
        orthogonalization_epsilon=1e-8,  # a matrix of zeros would become NaN
    )
    hook = torch_powersgd.powerSGD_hook
    ordered = hook if device.type == "cuda" else one_at_a_time(hook)
    return CommHook(state, _without_overflows(ordered))


def _without_overflows(hook: Hook) -> Hook:
    """A hook whose memory of earlier steps does not keep NaN and infinity.

    A gradient scaler skips a step that overflowed; PyTorch's PowerSGD would add its error to each
    step that follows, and begin with its matrices. The result is the same on all ranks, and so is
    the decision.
    """

    @functools.wraps(hook)
    def reduce(state: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        index = bucket.index()
        error = state.error_dict.get(index)

        def settle(done: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
            gradient = done.value()
            if index in state.p_memory_dict and not gradient.isfinite().all():
                del state.p_memory_dict[index], state.q_memory_dict[index]
                state.error_dict[index] = torch.zeros_like(gradient) if error is None else error
            return gradient

        matrices: Any = _WithoutScalars(bucket)
        return hook(state, matrices).then(settle)

    return reduce


class _WithoutScalars:
    """A bucket whose gradients have at least one dimension and one number: PyTorch's PowerSGD
    fails with others, such as that of CLIP's temperature.
    """

    def __init__(self, bucket: GradBucket) -> None:
        self._bucket = bucket

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bucket, name)

    def gradients(self) -> list[torch.Tensor]:
        return [
            each.view(-1) if each.dim() == 0 else each
            for each in self._bucket.gradients()
            if each.numel()
        ]


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
