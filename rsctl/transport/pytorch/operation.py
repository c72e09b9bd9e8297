"""Gradients being reduced: one operation, and all that may still have to be repeated."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch

from rsctl.transport import QueuedAllReduce
from rsctl.transport.pytorch.intra_node import IntraNode
from rsctl.transport.pytorch.packing import Packing

MakePacking = Callable[[torch.Tensor], Packing]
"""Gives the way to 8 bits of this rank's part of a tensor."""

_RECENT = 64


@dataclass(eq=False)
class TensorOperation:
    """One all-reduce of a flat tensor, in place.

    `wire` is the dtype in which it travels. `last` says that nothing follows for a while. `ready`
    is the moment on the GPU's stream at which the tensor is complete. `packing` is the way to 8
    bits, which replaces `wire`. `part` is what this rank carries of it, `sent` the same in the
    host's memory, which becomes its result.
    """

    tensor: torch.Tensor
    wire: torch.dtype
    average: bool
    last: bool
    future: torch.futures.Future[torch.Tensor]
    intra_node: IntraNode
    make_packing: MakePacking | None = None
    packing: Packing | None = None
    ready: torch.cuda.Event | None = None
    number: int = 0
    part: torch.Tensor | None = None
    sent: torch.Tensor | None = None
    work: QueuedAllReduce | None = None
    settled: bool = False

    @property
    def carried(self) -> tuple[torch.Tensor, torch.Tensor]:
        """`part` and `sent`, once it has begun."""
        assert self.part is not None  # noqa: S101
        assert self.sent is not None  # noqa: S101
        return self.part, self.sent


class PendingOperations:
    """Operations by number, from 1, until no worker needs them any longer."""

    def __init__(self) -> None:
        self._operations: dict[int, TensorOperation] = {}
        self._lock = threading.Lock()
        self._recent: deque[tuple[int, int, str]] = deque(maxlen=_RECENT)
        self.begun = 0
        self.ended = 0

    def begin(self, operation: TensorOperation) -> None:
        """Number an operation."""
        with self._lock:
            self.begun += 1
            operation.number = self.begun
            self._operations[operation.number] = operation
            tensor = operation.tensor
            dtype = str(tensor.dtype).removeprefix("torch.")
            self._recent.append((self.begun, tensor.numel(), dtype))

    def recent(self) -> list[tuple[int, int, str]]:
        """The last operations: number, elements, dtype."""
        with self._lock:
            return list(self._recent)

    def end(self, operation: TensorOperation) -> None:
        """An operation's result is in its tensor, or it has failed."""
        with self._lock:
            self.ended = max(self.ended, operation.number)

    def forget(self, committed: int) -> None:
        """Let go of what has ended here and is finished everywhere."""
        with self._lock:
            for number in [n for n in self._operations if n <= min(committed, self.ended)]:
                del self._operations[number]

    def get(self, number: int) -> TensorOperation:
        """An operation that has not been released."""
        with self._lock:
            return self._operations[number]

    @property
    def unfinished(self) -> bool:
        """Whether anything is under way."""
        with self._lock:
            return self.ended < self.begun
