"""Averages of flat tensors over all workers, for parameters in place of gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from rsctl.transport.pytorch.host_buffers import COMPRESSED_DTYPES
from rsctl.transport.pytorch.quorum import Quorum
from rsctl.transport.pytorch.settings import REDUCER_BUCKET_MB, BindingError, CommSettings
from rsctl.transport.pytorch.topology import timeout_of

_quorums = itertools.count()
_averagings = itertools.count()
_KEPT = 16
"""How many meetings of ranks the store keeps; with a quorum a rank may be late."""

Wait = Callable[[], None]
"""Waits until a tensor holds its average. Raises RuntimeError if a worker or reducer is lost."""


Counted = Callable[[], bool]
"""Waits as `Wait`, and says whether this worker's own tensor is part of the average."""


class Averaging:
    """Averages tensors by the reducers, or by all-reduce in a group of its own.

    The script's own collectives cannot come in between. Every worker gets the same bits: a reducer
    sends one result to all, and a ring adds each part in one place.
    """

    def __init__(self, device: torch.device, comm: CommSettings) -> None:
        """All workers call this together. Raises BindingError if the reducers do not answer."""
        self._device = device
        self._comm = comm
        self._wire = COMPRESSED_DTYPES.get(comm.compression, torch.float32)
        self._session: Any = None
        self._group: Any = None
        timeout = timeout_of(dist.group.WORLD, device) if dist.group.WORLD else None
        self._timeout = timeout
        if comm.reducers:
            from rsctl.transport.pytorch.session import open_session

            self._session = open_session(device, comm)
        else:
            self._group = dist.new_group(backend=_backend(comm))
        self.control = dist.new_group(backend="gloo")
        """A group for small values on the host."""
        self._meetings = 0
        self._store = _store(f"averaging/{next(_averagings)}")
        self._quorum: Quorum | None = None
        if comm.local is not None and comm.local.quorum is not None:
            self._quorum = self._with_quorum(comm.local.quorum)

    def describe(self) -> list[str]:
        """Phrases that say who takes part."""
        if self._session is not None:
            return list(self._session.describe())
        return [f"{dist.get_world_size()} workers", f"backend {dist.get_backend(self._group)}"]

    def begin(self, flat: torch.Tensor, wire: torch.dtype = torch.float32) -> Wait:
        """Begin to average a flat fp32 tensor in place, which travels in the dtype `wire`.

        All workers call this in the same order.
        """
        if self._session is not None:
            return self._reduce(flat, wire)
        return self._all_reduce(flat, wire)

    def begin_exchange(self, flat: torch.Tensor) -> Counted:
        """Begin to average changes, in place and perhaps without those of the slowest workers."""
        if self._quorum is not None:
            return self._quorum.begin(flat)
        wait = self.begin(flat, self._wire)

        def wait_for_all() -> bool:
            wait()
            return True

        return wait_for_all

    def _with_quorum(self, quorum: int) -> Quorum:
        world = dist.get_world_size()
        reason = remedy = None
        if quorum > world:
            reason = f"{quorum} workers are wanted, and there are {world}"
            remedy = f"Set a number from 1 to {world}."
        elif self._device.type != "cpu":
            reason = f"the model is on {self._device.type}, and a quorum works on the CPU so far"
        elif self._comm.backend == "rsctl":
            reason = "the script's own collectives would meet exchanges of ranks that are late"
            remedy = "Set comm.backend: auto, or remove comm.quorum."
        elif self._comm.fallback:
            reason = "late workers cannot repeat an exchange that a lost reducer has interrupted"
            remedy = "Set comm.on_reducer_loss: fail, or remove comm.quorum."
        if reason is not None:
            raise BindingError("comm.quorum", reason, remedy or "Remove comm.quorum.")
        store = _store(f"quorum/{next(_quorums)}")

        def average(flat: torch.Tensor) -> None:
            self.begin(flat, self._wire)()

        return Quorum(average, store, dist.get_rank(), world, quorum, self._timeout)

    def meet(self, event: str) -> None:
        """Before collectives: raise BindingError if another rank has come to another event.

        This does not wait for ranks that have not come: ranks would wait for each other for ever.
        """
        number, self._meetings = self._meetings, self._meetings + 1
        mine = f"{dist.get_rank()} {event}"
        try:
            first = self._store.compare_set(str(number), "", mine).decode()
        except RuntimeError:
            return  # rank 0 may have ended with the store; the collective says who is lost
        rank, _, theirs = first.partition(" ")
        if theirs != event:
            message = f"ranks have made different numbers of steps: rank {rank} has come to "
            message += f"{theirs}, and rank {dist.get_rank()} to {event}"
            remedy = (
                "Give all ranks equally many batches in each epoch, as with drop_last=True and "
            )
            remedy += "a sampler that pads, and call barriers and load checkpoints on all ranks."
            raise BindingError("comm.local_steps", message, remedy, "collective-mismatch")
        if first == mine and number >= _KEPT:
            self._store.delete_key(str(number - _KEPT))

    def average(self, flat: torch.Tensor) -> None:
        """Average a flat fp32 tensor in place, without compression: 16 bits cannot hold the states
        of optimizers, such as Adam's squares of gradients.
        """
        self.begin(flat)()

    def _reduce(self, flat: torch.Tensor, wire: torch.dtype) -> Wait:
        size = (self._comm.bucket_mb or REDUCER_BUCKET_MB) << 20
        parts = flat.split(size // flat.element_size())  # type: ignore[no-untyped-call]
        pipeline = self._session.pipeline
        futures = [
            pipeline.reduce(part, wire, last=part is parts[-1], timeout=self._timeout)
            for part in parts
        ]

        def wait() -> None:
            for future in futures:
                future.wait()

        return wait

    def _all_reduce(self, flat: torch.Tensor, wire: torch.dtype) -> Wait:
        workers = dist.get_world_size()
        # As PyTorch's own hooks for 16 bits, divided before the sum can overflow.
        sent = flat if wire is torch.float32 else (flat / workers).to(wire)
        work = dist.all_reduce(sent, group=self._group, async_op=True)

        def wait() -> None:
            work.wait()
            flat.copy_(sent / workers if sent is flat else sent)

        return wait


def _store(name: str) -> Any:
    return PrefixStore(f"rsctl/{name}", dist.distributed_c10d._get_default_store())


def _backend(comm: CommSettings) -> str | None:
    """The backend of the spec; None for that of the script. smddp reduces on the GPUs by NCCL."""
    return {"smddp": "nccl"}.get(comm.backend or "", comm.backend)
