"""The pipeline of gradients: intra-node scatter, reducers, intra-node gather."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal

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
from rsctl.transport.pytorch.operation import MakePacking, PendingOperations, TensorOperation
from rsctl.transport.pytorch.reducer_loss import ReducerLoss

_IN_FLIGHT = 2
"""How many operations inside a node may run ahead of the oldest that is back from the network."""

_POLL_SECONDS = 0.5
_CLOSING_SECONDS = 30.0
_LAST_SECONDS = 2.0
"""How long an orderly end waits for operations that no caller waits for."""


AFTER_FAILURE = "an earlier collective has failed, so no further collective is possible"
"""The message of a collective that comes after a failed one."""


class GradientPipeline:
    """One worker's gradients, in the order in which they come, with a thread of its own.

    The thread runs all collectives inside the node, in an order that follows from the order of
    the operations alone, and so is the same on all ranks: NCCL needs that. It also calls what the
    caller has chained to a result. Such a callback may begin and await operations itself: another
    thread takes the turn then.
    """

    def __init__(
        self, transport: Transport, intra_node: IntraNode, device: torch.device, loss: ReducerLoss
    ) -> None:
        self.transport = transport
        self.device = device
        self._intra_node = intra_node
        self._loss = loss
        self.pending = PendingOperations()
        # With nothing to do before the network, the caller's thread begins, and saves a switch.
        self._begins_at_once = isinstance(intra_node, WholeGradient) and device.type == "cpu"
        self._depth = 0 if isinstance(intra_node, WholeGradient) else _IN_FLIGHT
        self._stream = new_stream(device)
        self._order = threading.Lock()
        self._waiting: queue.SimpleQueue[TensorOperation | Literal["flush"] | None]
        self._waiting = queue.SimpleQueue()
        self._begun: deque[TensorOperation] = deque()
        self._flushes = False
        self._turn = threading.Lock()
        self._calls_back = False
        self.failure: RuntimeError | None = None
        """Why reduction is no longer possible; None while it is."""
        self._timeout: float | None = None
        self._start_thread()

    def reduce(
        self,
        tensor: torch.Tensor,
        wire: torch.dtype,
        average: bool = True,
        last: bool = True,
        intra_node: IntraNode | None = None,
        timeout: float | None = None,
        packing: MakePacking | None = None,
    ) -> torch.futures.Future[torch.Tensor]:
        """Begin to reduce a contiguous, flat tensor over all workers, in place.

        The future fails with RuntimeError, which names the reducer and the operation. Where `last`
        is false, more must follow: results may wait for it. `intra_node` replaces what happens
        inside the node. `timeout` is how many seconds may pass without progress, None for what
        counted before. `packing` makes the way to 8 bits of this rank's part.
        """
        self.hand_over()
        future = future_for(self.device)
        operation = TensorOperation(
            tensor, wire, average, last, future, intra_node or self._intra_node, packing
        )
        if self._stream is not None:
            operation.ready = torch.cuda.current_stream(self.device).record_event()
        with self._order:
            if self.failure is not None:
                future.set_exception(RuntimeError(f"{AFTER_FAILURE}: {self.failure}"))  # type: ignore[arg-type]
                return future
            if timeout is not None and timeout != self._timeout:
                self._timeout = timeout
                self.transport.set_timeout(timeout)
            if self._begins_at_once:
                self._begin(operation)
            self._waiting.put(operation)
        return _in_profile(operation.future)

    def flush(self) -> None:
        """Let all results come, as nothing follows for a while.

        All workers call this after the same operation.
        """
        self._waiting.put("flush")

    def close(self) -> None:
        """Leave the reducers when all workers have received their results from this one."""
        if not self._thread.is_alive():
            return
        self._await_last()
        if not self.pending.unfinished:
            self._loss.wait_until_committed(self.transport, self.pending.begun)
        self._loss.is_closing = True
        self.transport.close()
        self._waiting.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSING_SECONDS)

    @property
    def operations(self) -> int:
        """How many operations have been begun."""
        return self.pending.begun

    def hand_over(self) -> None:
        """In a callback of a result: let another thread continue the work that the caller may wait
        for.

        Otherwise the caller would wait for its own thread forever. Elsewhere this does nothing.
        """
        with self._turn:
            if self._calls_back and self._thread is threading.current_thread():
                self._calls_back = False
                self._start_thread()

    def _await_last(self) -> None:
        """Before leaving: let operations end that no caller has waited for, and see them fail."""
        until = time.monotonic() + _LAST_SECONDS
        while self.pending.unfinished and self.failure is None and time.monotonic() < until:
            time.sleep(0.01)

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="rsctl-gradients", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._take_turns()
        except Exception as error:  # noqa: BLE001 - without this thread callers would wait for ever
            for operation in self._abandoned():
                self._fail(operation, error)

    def _abandoned(self) -> Iterator[TensorOperation]:
        """All operations that callers wait for, including those that arrive meanwhile."""
        yield from self._begun
        while (operation := self._waiting.get()) is not None:
            if operation != "flush":
                yield operation

    def _take_turns(self) -> None:
        with self._on_stream(None):
            while self._thread is threading.current_thread():
                if self._begun and (self._flushes or len(self._begun) > self._depth):
                    self._finish_oldest()
                    continue
                try:
                    operation = self._waiting.get(timeout=_POLL_SECONDS)
                except queue.Empty:
                    self._loss.poll(self.transport, self.pending)
                    continue
                if operation is None:
                    return
                if operation == "flush":
                    self._flushes = True
                else:
                    self._take(operation)

    def _take(self, operation: TensorOperation) -> None:
        """Begin an operation; the order determines how many must be finished then."""
        if not self._begins_at_once:
            try:
                with self._on_stream(operation.ready):
                    self._begin(operation)
            except Exception as error:  # noqa: BLE001 - the caller waits for the future
                self._fail(operation, error)
                return
        self._begun.append(operation)
        self._flushes = operation.last

    def _finish_oldest(self) -> None:
        oldest = self._begun.popleft()
        try:
            self._finish(oldest)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(oldest, error)
            return
        self._call_back(lambda: oldest.future.set_result(oldest.tensor))

    def _begin(self, operation: TensorOperation) -> None:
        if self.failure is not None:
            raise self.failure
        part = operation.intra_node.scatter(operation.tensor, operation.average)
        operation.part = part
        travels_itself = part.device.type == "cpu" and part.dtype == operation.wire
        dtype = DTYPES[operation.wire]
        if operation.make_packing is not None:
            packing = operation.packing = operation.make_packing(part)
            packing.keeps, dtype = self._loss.may_recover, packing.kind
            operation.sent = packing.pack(part)
        elif travels_itself and not self._loss.may_recover:
            operation.sent = part
        else:
            operation.sent = host_copy(part, operation.wire)
        self.pending.begin(operation)
        # A loss that is known by now is handled when the operation is finished.
        with contextlib.suppress(TransportError):
            operation.work = self.transport.all_reduce(
                host_memory(operation.sent),
                dtype,
                "avg" if operation.average else "sum",
            )

    def _finish(self, operation: TensorOperation) -> None:
        if self.failure is not None:
            raise self.failure
        part, sent = operation.carried
        self._loss.wait(self.transport, self.pending, operation)
        if operation.packing is not None:
            operation.packing.unpack(sent, part)
        elif sent is not part:
            part.copy_(sent, non_blocking=True)
        operation.intra_node.gather(part, operation.tensor)
        self.pending.end(operation)
        releasable = self._loss.last_releasable(self.transport, operation.number)
        self.pending.forget(releasable)

    def _fail(self, operation: TensorOperation, error: Exception) -> None:
        """Fail an operation, and all that come after it: ranks may have different tensors now."""
        # DDP takes what the future has for text; a plain RuntimeError stays readable in it.
        failure = error if type(error) is RuntimeError else RuntimeError(str(error))
        try:
            if self.failure is None and not self._loss.is_closing:
                self.failure = failure
                self._loss.report_unless_reported(error)
                self.transport.give_up()
        finally:
            self.pending.end(operation)
            self._call_back(lambda: operation.future.set_exception(failure))  # type: ignore[arg-type]

    def _call_back(self, settle: Callable[[], None]) -> None:
        """Give a future its result, and so call what is chained to it."""
        self._calls_back = True
        settle()
        with self._turn:
            if self._thread is threading.current_thread():
                self._calls_back = False

    @contextlib.contextmanager
    def _on_stream(self, ready: torch.cuda.Event | None) -> Iterator[None]:
        if self._stream is None:
            yield
            return
        with torch.cuda.stream(self._stream):
            if ready is not None:
                self._stream.wait_event(ready)
            yield


def _in_profile(
    future: torch.futures.Future[torch.Tensor],
) -> torch.futures.Future[torch.Tensor]:
    """The future, as a range of a profile that PyTorch records in this thread."""
    autograd: Any = torch.autograd
    if not autograd._profiler_enabled():
        return future
    record: Any = torch.profiler.record_function("rsctl:all_reduce")
    record.__enter__()
    marked: torch.futures.Future[torch.Tensor] = record._call_end_callbacks_on_future(future)
    return marked
