"""The Python engine of the reducer: the reference, and the fall-back where there is no compiler."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque

from rsctl.transport import frames
from rsctl.transport.connection import Connection, ConnectionClosed, close_gracefully
from rsctl.transport.engine_interface import (
    HEARTBEATS,
    PROMPT_SECONDS,
    WAITED_SECONDS,
    EpochGroup,
    EpochOutcome,
    ReducerStats,
)
from rsctl.transport.errors import NO_RANK, ErrorCode, known_code, printable
from rsctl.transport.frames import FrameCheck, FrameError, Header
from rsctl.transport.pending_blocks import EpochFailed, PendingBlocks
from rsctl.transport.sums import quiet_arithmetic

_KINDS = (frames.DATA, frames.HEARTBEAT, frames.ERROR, frames.GOODBYE)
_READ_WRITE = selectors.EVENT_READ | selectors.EVENT_WRITE


NO_WAIT = (0, 0, NO_RANK)
"""The content of a heartbeat if nothing is waited for."""


class _Member:
    def __init__(self, rank: int, connection: Connection) -> None:
        self.rank = rank
        self.connection = connection
        self.completed = 0
        self.reported = 0
        self.told = NO_WAIT


class PythonReducer:
    """A ReducerEngine: one thread, one selector, no more memory than the windows allow."""

    def __init__(self, group: EpochGroup) -> None:
        self._group = group
        self._pending = PendingBlocks(group.world, group.window)
        self._members: dict[int, _Member] = {}
        self._left: dict[int, int] = {}
        self._finished = (0, NO_RANK)  # the last operation that a rank has finished, and which
        self._blocks = 0
        self._next_check = 0.0
        self._has_unreported = False
        self._closed_bytes = [0, 0]
        self._outcome: EpochOutcome | None = None
        self._lock = threading.Lock()
        self._arrivals: deque[tuple[socket.socket, int]] = deque()
        self._stop_request: EpochOutcome | None = None
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="rsctl-reducer", daemon=True)
        self._thread.start()

    def adopt(self, sock: socket.socket, rank: int) -> None:
        """See ReducerEngine."""
        with self._lock:
            if self._outcome is not None:  # it would not be served
                sock.close()
                return
            self._arrivals.append((sock, rank))
        self._notify()

    def outcome(self) -> EpochOutcome | None:
        """See ReducerEngine."""
        return self._outcome

    def stats(self) -> ReducerStats:
        """See ReducerEngine."""
        late = self._pending.lateness
        connections = [member.connection for member in list(self._members.values())]
        return ReducerStats(
            bytes_in=self._closed_bytes[0] + sum(c.bytes_in for c in connections),
            bytes_out=self._closed_bytes[1] + sum(c.bytes_out for c in connections),
            blocks=self._blocks,
            members=len(connections),
            late_mean=[rank.seconds / max(1, rank.blocks) for rank in late],
            late_most=[rank.most for rank in late],
        )

    def stop(self, code: ErrorCode, message: str) -> None:
        """See ReducerEngine."""
        self._stop_request = EpochOutcome(code, message)
        self._notify()
        self._thread.join()

    def _notify(self) -> None:
        with contextlib.suppress(OSError):  # when it has ended, and closed its side
            self._wake.send(b"!")

    def _run(self) -> None:
        quiet_arithmetic()
        try:
            while self._outcome is None:
                self._turn()
        except EpochFailed as refused:
            self._end(refused.code, str(refused), refused.rank, refused.blamed)
        finally:
            self._outcome = self._outcome or EpochOutcome(ErrorCode.STOPPED, "the reducer failed")
            self._close()

    def _turn(self) -> None:
        pause = PROMPT_SECONDS if self._has_unreported else self._group.silence / HEARTBEATS / 2
        for key, events in self._selector.select(pause):
            if key.data is None:
                self._take_requests()
            else:
                self._serve(key.data, events)
            if self._outcome is not None:
                return
        self._keep_alive()

    def _take_requests(self) -> None:
        self._woken.recv(4096)
        self._admit()
        if self._stop_request is not None:
            self._end(
                self._stop_request.code or ErrorCode.STOPPED, self._stop_request.message, NO_RANK
            )

    def _admit(self) -> None:
        while self._arrivals:
            sock, rank = self._arrivals.popleft()
            group = self._group
            check = FrameCheck(_KINDS, group.frame, group.epoch, group.job, rank)
            member = _Member(rank, Connection(sock, group.frame, check))
            self._members[rank] = member
            self._selector.register(sock, selectors.EVENT_READ, member)

    def _serve(self, member: _Member, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(member)
            if events & selectors.EVENT_READ:
                for header, payload in member.connection.receive():
                    self._handle(member, header, payload)
        except ConnectionClosed as ended:
            if self._members.get(member.rank) is member:
                raise self._lost(member, ErrorCode.LOST, f"was lost: {ended}") from None
        except FrameError as error:
            text = f"rank {member.rank} broke the protocol: {error}"
            raise EpochFailed(ErrorCode.PROTOCOL, member.rank, text) from None

    def _handle(self, member: _Member, header: Header, payload: memoryview) -> None:
        self._check_progress(member, header)
        if header.kind == frames.DATA:
            done = self._pending.add(header, payload)
            if done is not None:
                self._broadcast(*done)
            elif self._left:
                self._refuse_without(header)
        elif header.kind == frames.ERROR:
            reason = f"rank {member.rank} gave up: {printable(payload)}"
            code, blamed = known_code(header.code), frames.blamed(header)
            raise EpochFailed(code, header.rank, reason, blamed)
        elif header.kind == frames.GOODBYE:
            self._leave(member)

    def _check_progress(self, member: _Member, header: Header) -> None:
        """Take in what a worker has finished. Raises FrameError if that cannot be."""
        claimed, sequence = header.completed, header.sequence
        if header.kind == frames.ERROR:
            return
        if header.kind == frames.DATA and sequence <= max(claimed, self._finished[0]):
            rank = member.rank if sequence <= claimed else self._finished[1]
            raise FrameError(f"a block of operation {sequence}, which rank {rank} has finished")
        if claimed <= member.completed:
            return
        first = self._pending.first
        if first and claimed >= first:
            raise FrameError(f"it has finished operation {claimed}, but {first} is under way")
        member.completed, self._has_unreported = claimed, True
        self._finished = max(self._finished, (claimed, member.rank))

    def _broadcast(self, header: Header, result: memoryview) -> None:
        """To the ranks in turn, from another first one for each block, so that reducers that
        finish at the same time do not all send to the same worker."""
        world = self._group.world
        completed = self._completed()
        frame = header._replace(kind=frames.RESULT, rank=NO_RANK, completed=completed).pack()
        self._blocks += 1
        for turn in range(world):
            member = self._members.get((header.sequence + header.chunk + turn) % world)
            if member is not None:
                member.connection.queue(frame, result)
                member.reported, member.told = completed, NO_WAIT
                self._pending.delivered(member.rank)
                self._flush(member)

    def _refuse_without(self, header: Header) -> None:
        for rank in self._left:
            if self._pending.lacking(rank) is not None:
                text = f"rank {rank} left before operation {header.sequence}"
                raise EpochFailed(ErrorCode.LEFT, rank, text)

    def _completed(self) -> int:
        if len(self._members) + len(self._left) < self._group.world:
            return 0
        least = [member.completed for member in self._members.values()]
        return min([*least, *self._left.values()])

    def _flush(self, member: _Member) -> None:
        connection = member.connection
        before = connection.busy
        try:
            connection.flush()
        except ConnectionClosed as ended:
            raise self._lost(member, ErrorCode.LOST, f"was lost: {ended}") from None
        if connection.queued > 2 * self._group.window + 4:
            text = f"rank {member.rank} does not read its results"
            raise EpochFailed(ErrorCode.LIMIT, member.rank, text)
        if connection.busy or before:
            wanted = _READ_WRITE if connection.busy else selectors.EVENT_READ
            self._selector.modify(connection.sock, wanted, member)

    def _leave(self, member: _Member) -> None:
        waits = self._pending.lacking(member.rank)
        if waits is not None:
            text = f"rank {member.rank} left before operation {waits.sequence}"
            raise EpochFailed(ErrorCode.LEFT, member.rank, text)
        self._left[member.rank] = member.completed
        if len(self._left) == self._group.world:
            self._outcome = EpochOutcome(None, "all workers have left")
        # A worker waits for this: when it continues, all members can see that all have left.
        self._drop(member)

    def _drop(self, member: _Member) -> None:
        connection = self._members.pop(member.rank).connection
        self._closed_bytes[0] += connection.bytes_in
        self._closed_bytes[1] += connection.bytes_out
        self._selector.unregister(connection.sock)
        connection.close()

    def _lost(self, member: _Member, code: ErrorCode, what: str) -> EpochFailed:
        oldest = self._pending.oldest()
        during = f" during operation {oldest[0].sequence}" if oldest else ""
        self._drop(member)
        return EpochFailed(code, member.rank, f"rank {member.rank} {what}{during}")

    def _keep_alive(self) -> None:
        now = time.monotonic()
        if now < self._next_check and not self._has_unreported:
            return
        self._next_check = now + self._group.silence / HEARTBEATS / 2
        everywhere = self._completed()
        waits = self._long_wait()
        self._has_unreported = waits == NO_WAIT and self._pending.oldest() is not None
        for member in list(self._members.values()):
            connection = member.connection
            is_quiet = now - connection.last_received > self._group.silence / HEARTBEATS
            if is_quiet and connection.has_partial_frame:  # parts of it may have come
                self._serve(member, selectors.EVENT_READ)
                if self._outcome is not None:
                    return
                if member.rank not in self._members:
                    continue
            if now - connection.last_received > self._group.silence:
                silent = f"has been silent for {self._group.silence:g} s"
                raise self._lost(member, ErrorCode.SILENT, silent)
            is_behind = member.reported < everywhere or waits not in (NO_WAIT, member.told)
            pause = PROMPT_SECONDS if is_behind else self._group.silence / HEARTBEATS
            if now - connection.last_sent > pause and not connection.busy:
                connection.queue(self._heartbeat())
                member.reported, member.told = everywhere, waits
                self._flush(member)
            else:
                self._has_unreported |= is_behind

    def _long_wait(self) -> tuple[int, int, int]:
        """Operation, block and rank that have been waited for so long that workers are to know."""
        oldest = self._pending.oldest()
        if oldest is None or self._pending.waited() < WAITED_SECONDS:
            return NO_WAIT
        header, rank = oldest
        return header.sequence, header.chunk, rank

    def _heartbeat(self) -> bytes:
        oldest = self._pending.oldest()
        fields = {"epoch": self._group.epoch, "job": self._group.job}
        if oldest is not None:
            header, rank = oldest
            fields |= {"sequence": header.sequence, "chunk": header.chunk, "rank": rank}
        return frames.header(frames.HEARTBEAT, completed=self._completed(), **fields).pack()

    def _end(self, code: ErrorCode, message: str, rank: int, blamed: int | None = None) -> None:
        with self._lock:
            self._outcome = EpochOutcome(code, message)
        self._admit()  # workers that have only just come get the ERROR, too
        oldest = self._pending.oldest()
        sequence = oldest[0].sequence if oldest else 0
        self._pending.clear()
        group = self._group
        about = rank, sequence, group.epoch, group.job
        last = frames.error_frame(code, message, *about, blamed)
        close_gracefully([member.connection for member in self._members.values()], last)

    def _close(self) -> None:
        for member in list(self._members.values()):
            self._drop(member)
        for sock, _ in self._arrivals:
            sock.close()
        self._selector.close()
        self._woken.close()
        self._wake.close()
