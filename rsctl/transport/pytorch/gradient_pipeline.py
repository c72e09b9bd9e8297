"""The pipeline of gradients: intra-node scatter, reducers, intra-node gather."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Iterator

import torch

from rsctl.transport import Transport, TransportError
from rsctl.transport.pytorch.host_buffers import (
    DTYPES,
    future_for,
    host_copy,
    host_memory,
    new_stream,
)
from rsctl.transport.pytorch.intra_node import IntraNode, WholeGradient
from rsctl.transport.pytorch.operation import Operation, PendingOperations
from rsctl.transport.pytorch.reducer_loss import ReducerLoss

_IN_FLIGHT = 2
"""How many operations inside a node may run ahead of the oldest that is back from the network."""

_POLL_SECONDS = 0.5


class GradientPipeline:
    """One worker's gradients, in the order in which they come, with a thread of its own.

    The thread runs all collectives inside the node, in an order that follows from the order of
    the operations alone, and so is the same on all ranks: NCCL needs that.
    """

    def __init__(
        self, transport: Transport, intra_node: IntraNode, device: torch.device, loss: ReducerLoss
    ) -> None:
        self.transport = transport
        self.device = device
        self._intra_node = intra_node
        self._loss = loss
        self._pending = PendingOperations()
        # With nothing to do before the network, the caller's thread begins, and saves a switch.
        self._begins_at_once = isinstance(intra_node, WholeGradient) and device.type == "cpu"
        self._depth = 0 if isinstance(intra_node, WholeGradient) else _IN_FLIGHT
        self._stream = new_stream(device)
        self._order = threading.Lock()
        self._waiting: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="rsctl-gradients", daemon=True)
        self._thread.start()

    def reduce(
        self,
        tensor: torch.Tensor,
        wire: torch.dtype,
        average: bool = True,
        last: bool = True,
        intra_node: IntraNode | None = None,
    ) -> torch.futures.Future[torch.Tensor]:
        """Begin to reduce a contiguous, flat tensor over all workers, in place.

        The future fails with RuntimeError, which names the reducer and the operation. Where `last`
        is false, more must follow: results may wait for it. `intra_node` replaces what happens
        inside the node.
        """
        future = future_for(self.device)
        operation = Operation(tensor, wire, average, last, future, intra_node or self._intra_node)
        if self._stream is not None:
            operation.ready = torch.cuda.current_stream(self.device).record_event()
        with self._order:
            if self._begins_at_once:
                self._begin(operation)
            self._waiting.put(operation)
        return operation.future

    def close(self) -> None:
        """Leave the reducers, when all workers have what they need from this one."""
        if not self._thread.is_alive():
            return
        if not self._pending.unfinished:
            self._loss.wait_until_committed(self.transport, self._pending.begun)
        self._loss.is_closing = True
        self.transport.close()
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        with self._on_stream(None):
            begun: deque[Operation] = deque()
            while True:
                try:
                    operation = self._waiting.get(timeout=_POLL_SECONDS)
                except queue.Empty:
                    self._loss.poll(self.transport, self._pending)
                    continue
                if operation is None:
                    return
                self._take(operation, begun)

    def _take(self, operation: Operation, begun: deque[Operation]) -> None:
        """Begin one, and finish as many as the order says."""
        if not self._begins_at_once:
            try:
                with self._on_stream(operation.ready):
                    self._begin(operation)
            except Exception as error:  # noqa: BLE001 - the caller waits for the future
                self._fail(operation, error)
                return
        begun.append(operation)
        while begun and (operation.last or len(begun) > self._depth):
            oldest = begun.popleft()
            try:
                self._finish(oldest)
            except Exception as error:  # noqa: BLE001 - as above
                self._fail(oldest, error)

    def _begin(self, operation: Operation) -> None:
        part = operation.intra_node.scatter(operation.tensor, operation.average)
        operation.part = part
        travels_itself = part.device.type == "cpu" and part.dtype == operation.wire
        if travels_itself and not self._loss.may_recover:
            operation.sent = part
        else:
            operation.sent = host_copy(part, operation.wire)
        self._pending.begin(operation)
        # A loss that is known by now is met when the operation is to be finished.
        with contextlib.suppress(TransportError):
            operation.work = self.transport.all_reduce(
                host_memory(operation.sent),
                DTYPES[operation.wire],
                "avg" if operation.average else "sum",
            )

    def _finish(self, operation: Operation) -> None:
        part, sent = operation.carried
        self._loss.wait(self.transport, self._pending, operation)
        if sent is not part:
            part.copy_(sent, non_blocking=True)
        operation.intra_node.gather(part, operation.tensor)
        self._pending.end(operation)
        releasable = self._loss.last_releasable(self.transport, operation.number)
        self._pending.forget(releasable)
        operation.future.set_result(operation.tensor)

    def _fail(self, operation: Operation, error: Exception) -> None:
        self._pending.end(operation)
        # DDP takes what the future has for text; a plain RuntimeError stays readable in it.
        operation.future.set_exception(RuntimeError(str(error)))  # type: ignore[arg-type]

    @contextlib.contextmanager
    def _on_stream(self, ready: torch.cuda.Event | None) -> Iterator[None]:
        if self._stream is None:
            yield
            return
        with torch.cuda.stream(self._stream):
            if ready is not None:
                self._stream.wait_event(ready)
            yield
