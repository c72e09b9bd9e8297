"""The operations of a client that are not finished, block by block."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from rsctl.transport.engine_interface import Membership
from rsctl.transport.frames import DATA, ITEM_BYTES, FrameError, Header, chunks_of, header

_WAITING, _SENT, _DONE = 0, 1, 2


class Operation:
    """One all-reduce of a piece of memory, in place."""

    def __init__(
        self, sequence: int, data: memoryview, dtype: int, op: int, membership: Membership
    ) -> None:
        schedule = membership.schedule
        self.sequence = sequence
        self.data = data
        self.chunk_bytes = schedule.chunk_bytes(len(data), ITEM_BYTES[dtype])
        chunks = chunks_of(len(data), self.chunk_bytes)
        self.left = chunks
        self.order: Iterator[int] = schedule.order(membership.rank, chunks)
        self._states = bytearray(chunks)
        self._header = header(
            DATA,
            dtype=dtype,
            op=op,
            rank=membership.rank,
            epoch=membership.epoch,
            sequence=sequence,
            total=len(data),
            chunk_bytes=self.chunk_bytes,
            job=membership.job,
        )

    def block(self, chunk: int) -> memoryview:
        """The memory of one block."""
        begin = chunk * self.chunk_bytes
        return self.data[begin : begin + self.chunk_bytes]

    def sent(self, chunk: int, completed: int) -> bytes:
        """Mark a block as on its way and return its header."""
        self._states[chunk] = _SENT
        block = len(self.block(chunk))
        return self._header._replace(chunk=chunk, payload=block, completed=completed).pack()

    def receive(self, result: Header, payload: memoryview) -> None:
        """Write a result over its block. Raises FrameError if it is not one that is awaited."""
        mine = self._header
        if result[3:5] != mine[3:5] or (result.total, result.chunk_bytes) != (
            mine.total,
            mine.chunk_bytes,
        ):
            raise FrameError(f"a result of {result.describe()} for {mine.describe()}")
        if self._states[result.chunk] != _SENT:
            raise FrameError(f"block {result.chunk} of operation {self.sequence} came unasked")
        self._states[result.chunk] = _DONE
        self.left -= 1
        self.block(result.chunk)[:] = payload


class Operations:
    """The unfinished operations in their order. Numbers them, and knows which block is next."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._unfinished: dict[int, Operation] = {}
        self._unsent: deque[Operation] = deque()
        self._next: tuple[Operation, int] | None = None
        self.submitted = 0
        self.completed = 0

    @property
    def oldest(self) -> int:
        """The first unfinished operation's sequence, 0 if all are finished."""
        return next(iter(self._unfinished), 0)

    def begin(self, data: memoryview, dtype: int, op: int) -> int:
        """Add an operation and return its sequence."""
        self.submitted += 1
        operation = Operation(self.submitted, data, dtype, op, self._membership)
        self._unfinished[self.submitted] = operation
        self._unsent.append(operation)
        return self.submitted

    def next_block(self) -> tuple[Operation, int] | None:
        """The next block in the one order over all reducers; None when all are sent."""
        while self._next is None and self._unsent:
            operation = self._unsent[0]
            chunk = next(operation.order, None)
            if chunk is None:
                self._unsent.popleft()
            else:
                self._next = operation, chunk
        return self._next

    def taken(self) -> None:
        """The next block has been sent."""
        self._next = None

    def receive(self, result: Header, payload: memoryview, server: int) -> bool:
        """Take a result; whether it finished an operation. Raises FrameError."""
        operation = self._unfinished.get(result.sequence)
        schedule = self._membership.schedule
        if operation is None or schedule.server_of(result.sequence, result.chunk) != server:
            raise FrameError(f"a result for operation {result.sequence} came unasked")
        operation.receive(result, payload)
        if operation.left:
            return False
        del self._unfinished[result.sequence]
        self.completed = (self.oldest or self.submitted + 1) - 1
        return True
