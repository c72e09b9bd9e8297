"""Selects the communication hook of a model."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from rsctl.transport.pytorch import powersgd, recording
from rsctl.transport.pytorch.hook import CommHook, SelectedHook
from rsctl.transport.pytorch.host_buffers import COMPRESSED_DTYPES
from rsctl.transport.pytorch.named_hook import named_hook
from rsctl.transport.pytorch.settings import REDUCED_ONLY, BindingError, CommSettings

KEY = "comm.compression"

_HOOKS = {
    "fp16": default_hooks.fp16_compress_hook,
    "bf16": default_hooks.bf16_compress_hook,
}


def select_hook(model: DistributedDataParallel, comm: CommSettings) -> SelectedHook:
    """The hook for this model. All workers call this together.

    Raises BindingError if what the spec asks for is not possible with this process group.
    """
    group = model.process_group
    device = next(p.device for p in model.module.parameters() if p.requires_grad)
    if comm.reducers or comm.backend == "rsctl":
        from rsctl.transport.pytorch.reducer_hook import select_reducer_hook

        if group.size() == dist.get_world_size():  # reducers wait for all workers
            return select_reducer_hook(model, device, comm)
        description = [f"{group.size()} of {dist.get_world_size()} workers", "by all-reduce"]
    else:
        description = [f"{group.size()} workers", f"backend {dist.get_backend(group)}"]
    return _select_without_reducers(group, device, comm, description)


def _select_without_reducers(
    group: dist.ProcessGroup, device: torch.device, comm: CommSettings, description: list[str]
) -> SelectedHook:
    if comm.hook is not None:
        hook = named_hook(comm.hook, group)
        return SelectedHook(hook, [*description, f"hook {comm.hook}"], "of the hook")
    if comm.compression in REDUCED_ONLY:
        raise BindingError(
            KEY,
            f"only reducers can add gradients of {comm.compression}, and "
            f"{_without_reducers(group, comm)}",
            "Set reducers.count, or comm.compression: bf16.",
        )
    if comm.compression in COMPRESSED_DTYPES:
        _require_dtype(group, device, comm.compression)
        hook = CommHook(group, _HOOKS[comm.compression])
        return SelectedHook(hook, description, comm.compression)
    if comm.compression == "powersgd":
        hook = powersgd.powersgd_hook(group, device, comm)
        return SelectedHook(hook, description, powersgd.describe(comm))
    plain = CommHook(group, default_hooks.allreduce_hook) if recording.needs_hook() else None
    return SelectedHook(plain, description, "none")


def _without_reducers(group: dist.ProcessGroup, comm: CommSettings) -> str:
    if not comm.reducers:
        return "this job has no reducers"
    return f"this model's group has {group.size()} of {dist.get_world_size()} workers"


def _require_dtype(group: dist.ProcessGroup, device: torch.device, compression: str) -> None:
    """Reduce one element, since not every backend of every version can reduce every dtype."""
    dtype = COMPRESSED_DTYPES[compression]
    try:
        dist.all_reduce(torch.ones(1, dtype=dtype, device=device), group=group)
    except RuntimeError as error:
        message = f"backend {dist.get_backend(group)} cannot reduce {compression}: {error}"
        remedy = "Set another comm.compression or comm.backend, or use a newer torch."
        raise BindingError(KEY, message, remedy) from error
