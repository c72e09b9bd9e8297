"""PyTorch's PowerSGD, with defaults that a short job survives."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as torch_powersgd

from rsctl.transport.pytorch.hook import Carrier
from rsctl.transport.pytorch.settings import Wishes


def carrier(group: dist.ProcessGroup, device: torch.device, wishes: Wishes) -> Carrier:
    """PowerSGD over this group, with error feedback and warm start."""
    state = torch_powersgd.PowerSGDState(
        process_group=group,
        matrix_approximation_rank=wishes.powersgd_rank,
        start_powerSGD_iter=wishes.powersgd_start,
    )
    return Carrier(state, torch_powersgd.powerSGD_hook if device.type == "cuda" else _in_turn)


def described(wishes: Wishes) -> str:
    """What is used, in words."""
    return f"powersgd (rank {wishes.powersgd_rank}, from step {wishes.powersgd_start})"


def _in_turn(
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
