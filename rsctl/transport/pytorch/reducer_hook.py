"""DDP communication hooks that send gradients to the reducers."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from rsctl.transport.pytorch import packing, powersgd
from rsctl.transport.pytorch.hook import CommHook, SelectedHook
from rsctl.transport.pytorch.host_buffers import COMPRESSED_DTYPES
from rsctl.transport.pytorch.named_hook import named_hook
from rsctl.transport.pytorch.operation import MakePacking
from rsctl.transport.pytorch.packing import Packing
from rsctl.transport.pytorch.process_group import ReducerGroup
from rsctl.transport.pytorch.report import print_once
from rsctl.transport.pytorch.residuals import Residuals, count_numbers
from rsctl.transport.pytorch.session import ReducerSession, open_session
from rsctl.transport.pytorch.settings import CommSettings
from rsctl.transport.pytorch.topology import timeout_of


def select_reducer_hook(
    model: DistributedDataParallel, device: torch.device, comm: CommSettings
) -> SelectedHook:
    """The hook for a model whose process group is all workers."""
    group, session = model.process_group, open_session(device, comm)
    if comm.hook is not None:
        hook = named_hook(comm.hook, _ordered_group())
        return SelectedHook(hook, [*session.describe(), f"hook {comm.hook}"], "of the hook")
    if comm.compression == "powersgd":
        hook = powersgd.powersgd_hook(_ordered_group(), device, comm)
        return SelectedHook(hook, session.describe(), powersgd.describe(comm))
    reducer_hook = _ReducerHook(session, group, COMPRESSED_DTYPES.get(comm.compression))
    if comm.compression in packing.KINDS:
        reducer_hook.packed = comm.compression, Residuals(model)
    return SelectedHook(CommHook(None, reducer_hook), session.describe(), comm.compression)


def _ordered_group() -> dist.ProcessGroup:
    """A group of all workers for hooks that start collectives of their own."""
    group: ReducerGroup = dist.new_group(backend="rsctl")
    group.in_order = True
    return group


class _ReducerHook:
    """A DDP hook that reduces buckets by the reducers, and what they cannot by all-reduce."""

    def __init__(
        self, session: ReducerSession, group: dist.ProcessGroup, wire: torch.dtype | None
    ) -> None:
        self._session = session
        self._group = group
        self._wire = wire
        self.packed: tuple[str, Residuals] | None = None
        """The compression of 8 bits, and the rounding errors of the model."""

    def __call__(self, _: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        gradient = bucket.buffer()
        reason = self._session.refusal(gradient)
        if reason is None:
            wire = self._wire if self._wire and gradient.element_size() > 2 else gradient.dtype
            timeout = timeout_of(self._group, gradient.device)
            return self._session.pipeline.reduce(
                gradient,
                wire,
                last=bucket.is_last(),
                timeout=timeout,
                packing=self._packing_of(bucket),
            )
        if bucket.is_last():
            self._session.pipeline.flush()
        print_once(f"gradients that are {reason} do not use reducers but all-reduce")
        plain: torch.futures.Future[torch.Tensor] = default_hooks.allreduce_hook(
            self._group, bucket
        )
        return plain

    def _packing_of(self, bucket: GradBucket) -> MakePacking | None:
        if self.packed is None:
            return None
        kind, residuals = self.packed
        parameters = bucket.parameters()
        names = residuals.names(parameters)
        lengths = [count_numbers(parameter) for parameter in parameters]

        def make(part: torch.Tensor) -> Packing:
            if not self._session.topology.has_two_levels:
                return Packing(kind, lengths, residuals.of_bucket(names, part.device))
            own = part.numel()
            return Packing(kind, [own], residuals.of_part(names, own, part.device))

        return make
