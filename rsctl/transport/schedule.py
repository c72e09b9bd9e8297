"""The schedule: which block goes to which reducer, when, and how many may be under way.

All workers compute the same one; the engines, in Python and in C++, only follow it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rsctl.transport import cost_model
from rsctl.transport.cost_model import Links

FRAME_BYTES = 32 * 1024
"""The largest block. With its header it stays below 45 segments of 1448 bytes: a frame with a
little tail beyond what segmentation offload takes at once waits 40 ms for an acknowledgement."""

LONG_ROW_FRAME_BYTES = 16 * 1024
_LONG_ROW = 16  # slots: from here on the first row costs more than smaller frames do
_SMALLEST_CHUNK = 8 * 1024
_ALIGNMENT = 64
_UNDER_WAY_BYTES = 256 * 1024
_ROUND_TRIP_SECONDS = 0.0002
_TYPICAL_BYTES = 25_000_000  # PyTorch's bucket
_LONGEST_ROW = 384


@dataclass(frozen=True)
class Schedule:
    """One pool's schedule; equal on all its workers.

    `slots` are the reducers of one row. `windows` has for each reducer the most blocks that one
    worker may have under way to it. `frame` is the largest block in bytes. `dedicated` reducers
    come first in the numbering; in a hybrid the worker of rank r hosts reducer `dedicated + r`.
    """

    workers: int
    dedicated: int
    slots: tuple[int, ...]
    windows: tuple[int, ...]
    frame: int

    @property
    def servers(self) -> int:
        """How many reducers there are, workers' included."""
        return len(self.windows)

    @property
    def hybrid(self) -> bool:
        """Whether the workers reduce a share themselves."""
        return self.servers > self.dedicated

    @property
    def weights(self) -> tuple[int, ...]:
        """How many slots of a row each reducer has."""
        counts = Counter(self.slots)
        return tuple(counts[server] for server in range(self.servers))

    def digest(self) -> bytes:
        """SHA-256 over everything here: what workers compare through their reducers."""
        return hashlib.sha256(repr(self).encode()).digest()

    def chunk_bytes(self, total: int, item: int = 1) -> int:
        """The size of an operation's blocks: whole rows of equal blocks, none above the frame.

        A multiple of 64, or of `item` bytes if these are more, and not below 8 KiB, so that small
        operations stay one message.
        """
        return _chunk_bytes(total, len(self.slots), self.frame, max(item, _ALIGNMENT))

    def server_of(self, sequence: int, chunk: int) -> int:
        """The reducer of a block."""
        return self.slots[(sequence - 1 + chunk) % len(self.slots)]

    def order(self, rank: int, chunks: int) -> Iterator[int]:
        """The blocks of an operation in the order in which this rank sends them."""
        row = len(self.slots)
        for begin in range(0, chunks, row):
            length = min(row, chunks - begin)
            turn = rank * length // self.workers
            for step in range(length):
                yield begin + (turn + step) % length

    def seconds(self, links: Links, total: int) -> float:
        """The time that these links need for an operation of `total` bytes, the first row included.

        Within 1 % of what is measured where CPU and switch buffers are not the limit.
        """
        worker, reducers = self.traffic(total)
        busiest = [taken / rate for taken, rate in zip(reducers, links.reducers, strict=True)]
        return max([worker / links.worker, *busiest]) + self.fill_seconds(links, total)

    def fill_seconds(self, links: Links, total: int) -> float:
        """The time of the first row, after which results begin to come back.

        Another operation's blocks can be under way meanwhile.
        """
        return len(self.slots) * min(self.frame, self.chunk_bytes(total)) / links.worker

    def traffic(self, total: int) -> tuple[float, tuple[float, ...]]:
        """The bytes that a worker sends in an operation, and those that each reducer takes in.

        Each receives as much as it sends.
        """
        parts = [weight / len(self.slots) for weight in self.weights]
        own = parts[self.dedicated] if self.hybrid else 0.0
        taken = tuple(self.workers * total * part for part in parts[: self.dedicated])
        return total * (1 + (self.workers - 2) * own), taken


def plan(links: Links, frame: int | None = None, window: int | None = None) -> Schedule:
    """The faster of a pure and a hybrid schedule for these links.

    `frame` and `window` override what would be chosen; a window that could deadlock is widened.
    """
    candidates = []
    if links.reducers:
        candidates.append(_schedule(links, cost_model.pure_shares(links), frame, window))
    if links.workers > 1 and cost_model.hybrid_worker_share(links) > 0:
        candidates.append(_schedule(links, cost_model.hybrid_shares(links), frame, window))
    if not candidates:
        raise ValueError("there is no reducer, and no second worker to reduce with")
    return min(candidates, key=lambda schedule: schedule.seconds(links, _TYPICAL_BYTES))


def pure(links: Links, frame: int | None = None, window: int | None = None) -> Schedule:
    """The schedule that leaves all work to the dedicated reducers."""
    return _schedule(links, cost_model.pure_shares(links), frame, window)


def _schedule(
    links: Links, shares: Sequence[float], frame: int | None, window: int | None
) -> Schedule:
    weights = cost_model.weights(links, shares, _LONGEST_ROW, _TYPICAL_BYTES, _row_bytes)
    slots = _spread(weights)
    frame = frame or _frame_of_row(len(slots))
    under_way = max(_UNDER_WAY_BYTES, 2 * links.worker * _ROUND_TRIP_SECONDS)
    windows = tuple(
        max(weight + 1, window or -int(-under_way * weight / len(slots) // frame))
        for weight in weights
    )
    return Schedule(links.workers, len(links.reducers), slots, windows, frame)


def _frame_of_row(slots: int) -> int:
    """The largest block, in bytes, for a row of so many slots."""
    return FRAME_BYTES if slots <= _LONG_ROW else LONG_ROW_FRAME_BYTES


def _row_bytes(slots: int) -> int:
    """The bytes of a row of so many slots, in an operation of typical size."""
    return slots * _chunk_bytes(_TYPICAL_BYTES, slots, _frame_of_row(slots))


def _chunk_bytes(total: int, row: int, frame: int, unit: int = _ALIGNMENT) -> int:
    frame = frame // unit * unit
    rows = max(1, -(-total // (row * frame)))
    even = max(_SMALLEST_CHUNK, -(-total // (row * rows)))
    return min(frame, -(-even // unit) * unit)


def _spread(weights: Sequence[int]) -> tuple[int, ...]:
    """A row in which the slots of each reducer are as far apart as can be."""
    positions = [
        ((turn + 0.5) / weight, server)
        for server, weight in enumerate(weights)
        for turn in range(weight)
    ]
    return tuple(server for _, server in sorted(positions))
