"""PyTorch's PowerSGD, with defaults that a short job survives."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as torch_powersgd

from rsctl.transport.pytorch.hook import CommHook
from rsctl.transport.pytorch.settings import CommSettings


def powersgd_hook(group: dist.ProcessGroup, device: torch.device, comm: CommSettings) -> CommHook:
    """PowerSGD over this group, with error feedback and warm start."""
    state = torch_powersgd.PowerSGDState(
        process_group=group,
        matrix_approximation_rank=comm.powersgd_rank,
        start_powerSGD_iter=comm.powersgd_start,
    )
    return CommHook(
        state, torch_powersgd.powerSGD_hook if device.type == "cuda" else _one_at_a_time
    )


def describe(comm: CommSettings) -> str:
    """The settings of PowerSGD as text."""
    return f"powersgd (rank {comm.powersgd_rank}, from step {comm.powersgd_start})"


def _one_at_a_time(
    state: torch_powersgd.PowerSGDState, bucket: GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """One bucket after another.

    The hook starts further collectives when the first has ended. With CUDA they are enqueued at
    once; elsewhere a thread starts them some time later, between those of other buckets, in an
    order that differs between the workers.
    """
    future: torch.futures.Future[torch.Tensor] = torch_powersgd.powerSGD_hook(state, bucket)
    future.wait()
    return future
