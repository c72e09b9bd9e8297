"""Averages of flat tensors over all workers, for parameters in place of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from rsctl.transport.pytorch.host_buffers import COMPRESSED_DTYPES
from rsctl.transport.pytorch.settings import REDUCER_BUCKET_MB, CommSettings
from rsctl.transport.pytorch.topology import timeout_of

Wait = Callable[[], None]
"""Waits until a tensor holds its average. Raises RuntimeError if a worker or reducer is lost."""


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

    def describe(self) -> list[str]:
        """Phrases that say who takes part."""
        if self._session is not None:
            return list(self._session.describe())
        return [f"{dist.get_world_size()} workers", f"backend {dist.get_backend(self._group)}"]

    def begin(self, flat: torch.Tensor) -> Wait:
        """Begin to average a flat fp32 tensor in place. All workers call this in the same order."""
        if self._session is not None:
            return self._reduce(flat)
        return self._all_reduce(flat)

    def average(self, flat: torch.Tensor) -> None:
        """Average a flat fp32 tensor in place."""
        self.begin(flat)()

    def _reduce(self, flat: torch.Tensor) -> Wait:
        size = (self._comm.bucket_mb or REDUCER_BUCKET_MB) << 20
        parts = flat.split(size // flat.element_size())  # type: ignore[no-untyped-call]
        pipeline = self._session.pipeline
        futures = [
            pipeline.reduce(part, self._wire, last=part is parts[-1], timeout=self._timeout)
            for part in parts
        ]

        def wait() -> None:
            for future in futures:
                future.wait()

        return wait

    def _all_reduce(self, flat: torch.Tensor) -> Wait:
        workers = dist.get_world_size()
        # As PyTorch's own hooks for 16 bits, divided before the sum can overflow.
        sent = flat if self._wire is torch.float32 else (flat / workers).to(self._wire)
        work = dist.all_reduce(sent, group=self._group, async_op=True)

        def wait() -> None:
            work.wait()
            flat.copy_(sent / workers if sent is flat else sent)

        return wait


def _backend(comm: CommSettings) -> str | None:
    """The backend of the spec; None for that of the script. smddp reduces on the GPUs by NCCL."""
    return {"smddp": "nccl"}.get(comm.backend or "", comm.backend)
