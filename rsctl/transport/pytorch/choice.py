"""Which hook carries the gradients of a model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from rsctl.transport.pytorch import powersgd
from rsctl.transport.pytorch.hook import Carrier
from rsctl.transport.pytorch.settings import BindingError, Wishes

PATH = "comm.compression"
HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}
"""The dtypes in which compressed gradients travel."""

_HOOKS = {
    "fp16": default_hooks.fp16_compress_hook,
    "bf16": default_hooks.bf16_compress_hook,
}


@dataclass(frozen=True)
class Chosen:
    """A carrier, None for DDP's own all-reduce, and what to tell of it."""

    carrier: Carrier | None
    words: list[str]
    compression: str


def carrier(model: DistributedDataParallel, wishes: Wishes) -> Chosen:
    """Choose for this model. All workers come here together.

    Raises BindingError if what the spec asks for is not possible with this process group.
    """
    group, device = model.process_group, model_device(model)
    if wishes.reducers or wishes.backend == "rsctl":
        from rsctl.transport.pytorch import reducing

        if reducing.spans_all(group):
            return reducing.choose(group, device, wishes)
        words = [f"{group.size()} of {dist.get_world_size()} workers", "by all-reduce"]
    else:
        words = [f"{group.size()} workers", f"backend {dist.get_backend(group)}"]
    return _without_reducers(group, device, wishes, words)


def model_device(model: DistributedDataParallel) -> torch.device:
    """Where this model's gradients are."""
    device: torch.device = next(p.device for p in model.module.parameters() if p.requires_grad)
    return device


def _without_reducers(
    group: dist.ProcessGroup, device: torch.device, wishes: Wishes, words: list[str]
) -> Chosen:
    if wishes.compression in HALVES:
        _require_dtype(group, device, wishes.compression)
        hook = Carrier(group, _HOOKS[wishes.compression])
        return Chosen(hook, words, wishes.compression)
    if wishes.compression == "powersgd":
        hook = powersgd.carrier(group, device, wishes)
        return Chosen(hook, words, powersgd.described(wishes))
    return Chosen(None, words, "none")


def _require_dtype(group: dist.ProcessGroup, device: torch.device, compression: str) -> None:
    """Reduce one element, since not every backend of every version can reduce every dtype."""
    try:
        dist.all_reduce(torch.ones(1, dtype=HALVES[compression], device=device), group=group)
    except RuntimeError as error:
        message = f"backend {dist.get_backend(group)} cannot reduce {compression}: {error}"
        remedy = "Set another comm.compression or comm.backend, or take a newer torch."
        raise BindingError(PATH, message, remedy) from error
