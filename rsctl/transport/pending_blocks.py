"""The blocks that a reducer is adding up, and how late each worker's come."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rsctl.transport.errors import NO_RANK, ErrorCode
from rsctl.transport.frames import Header
from rsctl.transport.sums import Accumulator


class EpochFailed(Exception):
    """A worker has failed or broken the protocol: the epoch ends. `code` is why, `rank` the worker.

    `blamed` is a reducer that failed, if that is the reason.
    """

    def __init__(self, code: ErrorCode, rank: int, message: str, blamed: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.rank = rank
        self.blamed = blamed


@dataclass
class Lateness:
    """How long after the first rank's block a rank's own came: seconds in all, and the most."""

    blocks: int = 0
    seconds: float = 0.0
    most: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one block."""
        self.blocks += 1
        self.seconds += seconds
        self.most = max(self.most, seconds)


@dataclass
class PendingBlock:
    """One block: whose contributions are added, and those that came before their turn."""

    header: Header
    since: float
    next_rank: int = 0
    sum: Accumulator | None = None
    early: dict[int, bytes] = field(default_factory=dict)

    def has(self, rank: int) -> bool:
        """Whether this rank has contributed."""
        return rank < self.next_rank or rank in self.early

    def add(self, rank: int, block: memoryview) -> None:
        """Take a rank's block; it is added when all lower ranks' are."""
        if rank != self.next_rank:
            self.early[rank] = bytes(block)
            return
        self._add_next(block)
        while (held := self.early.pop(self.next_rank, None)) is not None:
            self._add_next(held)

    def _add_next(self, block: memoryview | bytes) -> None:
        if self.sum is None:
            self.sum = Accumulator(block, self.header.dtype)
        else:
            self.sum.add(block)
        self.next_rank += 1

    def missing(self, world: int) -> int:
        """The first rank that has not contributed."""
        return next((rank for rank in range(world) if not self.has(rank)), NO_RANK)


class PendingBlocks:
    """All blocks under way. Bounded, since a worker has at most `window` in it."""

    def __init__(self, world: int, window: int) -> None:
        self._world = world
        self._window = window
        self._blocks: dict[tuple[int, int], PendingBlock] = {}
        self._under_way = [0] * world
        self.lateness = [Lateness() for _ in range(world)]

    def add(self, header: Header, block: memoryview) -> tuple[Header, memoryview] | None:
        """Take a worker's block; the result and its header if it was the last one missing.

        Raises EpochFailed.
        """
        rank, key = header.rank, (header.sequence, header.chunk)
        now = time.monotonic()
        pending = self._blocks.get(key)
        if pending is None:
            pending = self._blocks[key] = PendingBlock(header, now)
        _check_same(pending, header)
        self._under_way[rank] += 1
        if self._under_way[rank] > self._window:
            raise EpochFailed(
                ErrorCode.LIMIT, rank, f"rank {rank} sends more than {self._window} blocks at once"
            )
        self.lateness[rank].add(now - pending.since)
        pending.add(rank, block)
        if pending.next_rank < self._world or pending.sum is None:
            return None
        del self._blocks[key]
        return header, pending.sum.result(header.op, self._world)

    def delivered(self, rank: int) -> None:
        """A result has been sent to this rank."""
        self._under_way[rank] -= 1

    def oldest(self) -> tuple[Header, int] | None:
        """The block that has waited longest, and the first rank that it lacks."""
        pending = next(iter(self._blocks.values()), None)
        return None if pending is None else (pending.header, pending.missing(self._world))

    def waited(self) -> float:
        """For how many seconds the oldest block has waited, 0 if there is none."""
        pending = next(iter(self._blocks.values()), None)
        return 0.0 if pending is None else time.monotonic() - pending.since

    @property
    def first(self) -> int:
        """The lowest operation that has unfinished blocks, 0 if there is none."""
        return min(self._blocks)[0] if self._blocks else 0

    def lacking(self, rank: int) -> Header | None:
        """A block that has come from others and not from this rank."""
        return next((s.header for s in self._blocks.values() if not s.has(rank)), None)

    def clear(self) -> None:
        """Free everything."""
        self._blocks.clear()


def _check_same(pending: PendingBlock, header: Header) -> None:
    first, rank = pending.header, header.rank
    if header[3:5] != first[3:5] or header[8:12] != first[8:12]:
        raise EpochFailed(
            ErrorCode.MISMATCH,
            rank,
            f"the workers disagree about operation {header.sequence}: rank {first.rank} has "
            f"{first.describe()}, rank {rank} has {header.describe()}",
        )
    if pending.has(rank):
        raise EpochFailed(ErrorCode.PROTOCOL, rank, f"rank {rank} sends a block twice")
