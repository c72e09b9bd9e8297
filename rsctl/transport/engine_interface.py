"""What the engines, in Python and in C++, have in common: their parameters and their reports."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rsctl.transport.errors import Code, Failure
from rsctl.transport.schedule import Schedule

HEARTBEATS = 4
"""How often a side shows that it is alive in the time after which it would be given up."""

PROMPT_SECONDS = 0.05
"""How soon a side that has nothing else to send says what has been finished since it sent last."""


@dataclass(frozen=True)
class Group:
    """One epoch of one run, as a reducer sees it. `silence` is in seconds, the rest as in HELLO."""

    world: int
    frame: int
    window: int
    epoch: int
    job: int
    silence: float


@dataclass(frozen=True)
class Membership:
    """One worker's place, as its client sees it. `silence` and `timeout` are in seconds."""

    schedule: Schedule
    rank: int
    epoch: int
    job: int
    silence: float
    timeout: float


@dataclass(frozen=True)
class Outcome:
    """How an epoch ended on a reducer; `code` is None after everyone's goodbye."""

    code: Code | None
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

    def outcome(self) -> Outcome | None:
        """How it ended; None while it goes on."""

    def stats(self) -> ReducerStats:
        """The counters so far."""

    def stop(self, code: Code, message: str) -> None:
        """Tell the workers why, free everything, and wait until that is done."""


class ClientEngine(Protocol):
    """Sends and receives one worker's blocks, in a thread of its own."""

    def submit(self, data: memoryview, dtype: int, op: int) -> int:
        """Begin to reduce this memory in place, and return the operation's sequence.

        The memory must be writable, contiguous, and stay until the operation is finished.
        """

    def wait(self, sequence: int, timeout: float | None) -> bool:
        """Wait until this operation is finished here; False if not within `timeout` seconds or
        if the engine has failed."""

    @property
    def completed(self) -> int:
        """The last operation such that it and all before it are finished here."""

    @property
    def committed(self) -> int:
        """The same for all workers, as far as is known here."""

    def failure(self) -> Failure | None:
        """Why it has stopped; None while it goes on."""

    def stats(self) -> ClientStats:
        """The counters so far."""

    def stop(self) -> None:
        """Say goodbye, or give up what is unfinished; close and wait until that is done."""


Sockets = Sequence[socket.socket]
