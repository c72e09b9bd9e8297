"""Handling of a lost reducer: a clear failure, or recovery."""

from __future__ import annotations

import threading
import time

import torch

from rsctl.transport import ErrorCode, Transport, TransportError
from rsctl.transport.pytorch.operation import PendingOperations, TensorOperation
from rsctl.transport.pytorch.recovery import Recovery, RecoveryFailed
from rsctl.transport.pytorch.report import emit_finding
from rsctl.transport.pytorch.topology import Topology

_POLL_SECONDS = 0.01
_COMMIT_SECONDS = 30.0
_LOSS_REMEDY = (
    "See the log of the node that it names. With comm.on_reducer_loss: fallback the workers "
    "continue without reducers."
)
_WORKER_REMEDY = (
    "See the log of that rank. If it ended with exit code 0, give all ranks the same number of "
    "steps: drop_last=True, or torch.distributed.algorithms.join.Join. The workers cannot continue "
    "without it: limits.retries starts the job again."
)
_SAME_CALLS = (
    "Let all ranks call the same collectives, equally often and in the same order, with tensors of "
    "the same size and dtype and the same operation."
)
_RECOVERABLE = (
    ErrorCode.LOST,
    ErrorCode.SILENT,
    ErrorCode.STOPPED,
    ErrorCode.GAVE_UP,
    ErrorCode.UNREACHABLE,
)


_TIMED_OUT = ("has made no progress for", "Timed out waiting")
"""How a passed-on failure and gloo say that a time has run out."""

_TIMEOUT_REMEDY = (
    "See the log of the rank that the others wait for: it is slow, stuck or lost, or runs other "
    "collectives. The timeout is the one of init_process_group, or RSCTL_TRANSPORT_TIMEOUT in "
    "run.env."
)


class ReducerLoss:
    """Waits for results, and fails or recovers when none come. One thread uses it.

    `recovery` is None if a lost reducer ends the job.
    """

    def __init__(self, recovery: Recovery | None, topology: Topology | None = None) -> None:
        self._topology = topology
        self._is_reported = False
        self.may_recover = recovery is not None
        self.is_closing = False
        """Whether this worker is leaving: failures from now on are not losses."""
        self._recovery = recovery
        self._failure: Exception | None = None
        self._settled = threading.Event()

    def wait(
        self, transport: Transport, pending: PendingOperations, operation: TensorOperation
    ) -> None:
        """Wait until the operation's result is in its host memory.

        Raises TransportError or RecoveryFailed, after a finding.
        """
        error: TransportError | None = None
        if operation.work is not None:
            try:
                operation.work.wait()
                return
            except TransportError as lost:
                error = lost
        error = self._in_job(error or transport.failure())
        self._settle(transport, pending, _during(error, operation) if error else None)
        if not operation.settled:
            assert self._recovery is not None  # noqa: S101
            part, sent = operation.carried
            packing = operation.packing
            kept = part if packing is None else packing.kept
            assert kept is not None  # noqa: S101
            sent.copy_(kept)
            kind = None if packing is None else packing.kind
            self._recovery.all_reduce(sent, operation.average, kind)

    def poll(self, transport: Transport, pending: PendingOperations) -> None:
        """Take part in a recovery that others need, while there is nothing to do here."""
        if not self.may_recover or self.is_closing or self._settled.is_set():
            return
        error = self._in_job(transport.failure())
        if error is not None:
            try:
                self._settle(transport, pending, error)
            except (TransportError, RecoveryFailed):
                return  # It was reported, and the next operation raises it.

    def wait_until_committed(self, transport: Transport, number: int) -> None:
        """Before leaving: wait until all workers have this operation's result.

        Without recovery no other worker will need data from this one, and it does not wait.
        """
        until = time.monotonic() + _COMMIT_SECONDS
        while self.may_recover and transport.committed < number and time.monotonic() < until:
            if self._settled.is_set():
                return
            time.sleep(_POLL_SECONDS)

    def last_releasable(self, transport: Transport, ended: int) -> int:
        """The last operation that no worker will request from this one; `ended` is its own last."""
        needed = self.may_recover and not self._settled.is_set()
        return transport.committed if needed else ended

    def _settle(
        self, transport: Transport, pending: PendingOperations, error: TransportError | None
    ) -> None:
        """Agree, once, on what all workers have finished.

        Raises what every later operation raises, too.
        """
        if self._failure is not None:
            raise self._failure
        if self._settled.is_set():
            return
        try:
            self._agree(transport, pending, error)
        except (TransportError, RecoveryFailed) as failure:
            self._failure = failure
            self._settled.set()
            raise
        self._settled.set()

    def _agree(
        self, transport: Transport, pending: PendingOperations, error: TransportError | None
    ) -> None:
        error = error or TransportError(ErrorCode.CLOSED, "the transport was closed")
        is_late = error.code is ErrorCode.DEADLINE and error.rank is not None
        has_left = error.code is ErrorCode.LEFT  # that worker answers no more
        if self._recovery is None or self.is_closing or is_late or has_left:
            self._report_loss(error)
            raise error
        try:
            last = self._recovery.settle(
                transport.completed, _is_a_reducer_lost(error), lambda n: _result(pending, n)
            )
        except RecoveryFailed as failure:
            both = RecoveryFailed(f"{error}; {failure}")
            both.is_worker_lost = failure.is_worker_lost or _is_a_worker_lost(error)
            self._report_loss(both)
            raise both from error
        for number in range(transport.completed + 1, last + 1):
            pending.get(number).settled = True
        if self._recovery.is_leader:
            emit_finding(
                "warning",
                "reducer-lost",
                f"{error}; the workers continue without reducers from operation {last + 1}",
                "The results stay the same; the network load is higher than with reducers.",
            )

    def report_unless_reported(self, error: Exception) -> None:
        """Emit a finding for a failure that is not the transport's, such as one inside the node."""
        if not self._is_reported:
            self._report_loss(error)

    def _report_loss(self, error: Exception) -> None:
        if not self.is_closing:
            self._is_reported = True
            _emit(error)

    def _in_job(self, error: TransportError | None) -> TransportError | None:
        """The same with ranks of the job in place of those of its lane."""
        if error is None or self._topology is None or not self._topology.has_two_levels:
            return error
        text, ranks = self._topology.name_ranks(error.message), self._topology.lane_ranks
        rank = None if error.rank is None else dict(enumerate(ranks)).get(error.rank)
        return TransportError(error.code, text, error.reducer, rank, error.sequence)


def _emit(error: Exception) -> None:
    """Emit the finding for a failure."""
    code, text = getattr(error, "code", None), str(error)
    if code in (ErrorCode.MISMATCH, ErrorCode.LEFT):
        emit_finding("error", "collective-mismatch", text, _SAME_CALLS)
    elif code is ErrorCode.DEADLINE or any(passed_on in text for passed_on in _TIMED_OUT):
        emit_finding("error", "collective-timeout", text, _TIMEOUT_REMEDY)
    elif _is_a_worker_lost(error):
        emit_finding("error", "worker-lost", text, _WORKER_REMEDY)
    elif isinstance(error, (TransportError, RecoveryFailed)):
        emit_finding("error", "reducer-lost", text, _LOSS_REMEDY)
    else:
        remedy = "See the log of the other ranks of this node."
        emit_finding("error", "gradients-failed", text, remedy)


def _during(error: TransportError, operation: TensorOperation) -> TransportError:
    """The same, with the operation in its text if it was noticed between operations."""
    if error.sequence is not None:
        return error
    text = f"{error.message}; operation {operation.number} failed"
    return TransportError(error.code, text, error.reducer, error.rank, operation.number)


def _is_a_worker_lost(error: Exception) -> bool:
    if isinstance(error, RecoveryFailed):
        return error.is_worker_lost
    if not isinstance(error, TransportError) or error.rank is None:
        return False
    return error.code in (ErrorCode.LOST, ErrorCode.SILENT)


def _is_a_reducer_lost(error: TransportError) -> bool:
    """Whether the workers themselves are all right.

    A reducer that names a rank as lost has lost a worker; one that passes on that a worker gave
    up says only that this worker has met the same.
    """
    return error.code in _RECOVERABLE and (error.rank is None or error.code is ErrorCode.GAVE_UP)


def _result(pending: PendingOperations, number: int) -> torch.Tensor:
    return pending.get(number).carried[1]
