"""The interface of the engines, in Python and in C++: parameters, methods and statistics."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rsctl.transport.errors import EngineFailure, ErrorCode
from rsctl.transport.schedule import Schedule

HEARTBEATS = 4
"""Heartbeats in the time after which a silent peer is given up."""

PROMPT_SECONDS = 0.05
"""Longest delay, in seconds, before an idle side reports what has been completed."""

WAITED_SECONDS = 0.25
"""How long a reducer has waited for a rank, in seconds, when it reports that rank to the workers
without waiting for its next heartbeat."""


@dataclass(frozen=True)
class EpochGroup:
    """One epoch of one run on a reducer. `silence` is in seconds, the rest as in HELLO."""

    world: int
    frame: int
    window: int
    epoch: int
    job: int
    silence: float


@dataclass(frozen=True)
class Membership:
    """One worker's rank, schedule and time-outs. `silence` and `timeout` are in seconds."""

    schedule: Schedule
    rank: int
    epoch: int
    job: int
    silence: float
    timeout: float


@dataclass(frozen=True)
class EpochOutcome:
    """How an epoch ended on a reducer; `code` is None after everyone's goodbye."""

    code: ErrorCode | None
    message: str


@dataclass
class ReducerStats:
    """Counters of an epoch. Lateness is in seconds after the first rank's block, by rank."""

    bytes_in: int = 0
    bytes_out: int = 0
    blocks: int = 0
    members: int = 0
    late_mean: list[float] = field(default_factory=list)
    late_most: list[float] = field(default_factory=list)


@dataclass
class ClientStats:
    """Counters of a client. `busy` are the seconds in which an operation was unfinished, `stalled`
    those of them in which a full window kept the next block back."""

    bytes_in: int = 0
    bytes_out: int = 0
    operations: int = 0
    reduced: int = 0
    busy: float = 0.0
    stalled: float = 0.0


class ReducerEngine(Protocol):
    """Reduces for one group, in a thread of its own, until everyone has left or one is lost."""

    def adopt(self, sock: socket.socket, rank: int) -> None:
        """Take over the connection of a worker after its handshake."""

    def outcome(self) -> EpochOutcome | None:
        """How it ended; None while it is running."""

    def stats(self) -> ReducerStats:
        """The counters so far."""

    def stop(self, code: ErrorCode, message: str) -> None:
        """Send the reason to the workers, free everything, and wait until that is done."""


class ClientEngine(Protocol):
    """Sends and receives one worker's blocks, in a thread of its own."""

    def submit(self, data: memoryview, dtype: int, op: int) -> int:
        """Begin to reduce this memory in place, and return the operation's sequence.

        The memory must be writable, contiguous, and stay until the operation is finished.
        """

    def set_timeout(self, timeout: float) -> None:
        """Fail from now on after so many seconds without progress, in place of the membership's."""

    def wait(self, sequence: int, timeout: float | None) -> bool:
        """Wait until this operation is finished here; False if not within `timeout` seconds or
        if the engine has failed."""

    @property
    def completed(self) -> int:
        """The last operation such that it and all before it are finished here."""

    @property
    def committed(self) -> int:
        """The same for all workers, as far as is known here."""

    def failure(self) -> EngineFailure | None:
        """Why it has stopped; None while it is running."""

    def stats(self) -> ClientStats:
        """The counters so far."""

    def stop(self) -> None:
        """Say goodbye, or give up what is unfinished; close and wait until that is done."""


Sockets = Sequence[socket.socket]
