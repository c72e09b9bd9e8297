"""The Python engine of the client: the reference, and the fall-back where there is no compiler."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from dataclasses import replace

from rsctl.transport import frames
from rsctl.transport.connection import Connection, ConnectionClosed, close_gracefully
from rsctl.transport.engine_interface import (
    HEARTBEATS,
    PROMPT_SECONDS,
    ClientStats,
    Membership,
    Sockets,
)
from rsctl.transport.errors import NO_RANK, EngineFailure, ErrorCode, known_code, printable
from rsctl.transport.frames import FrameCheck, FrameError, Header
from rsctl.transport.operations import Operations

_KINDS = (frames.RESULT, frames.HEARTBEAT, frames.ERROR)
_READ_WRITE = selectors.EVENT_READ | selectors.EVENT_WRITE


class _Server:
    def __init__(self, number: int, window: int, connection: Connection) -> None:
        self.number = number
        self.connection = connection
        self.room = window
        self.committed = 0
        self.reported = 0
        self.waits_for = NO_RANK


class _Failed(Exception):
    def __init__(self, failure: EngineFailure) -> None:
        super().__init__()
        self.failure = failure


class PythonClient:
    """A ClientEngine: one thread, one selector. `sockets` are opened, in the schedule's order."""

    def __init__(self, membership: Membership, sockets: Sockets) -> None:
        self._membership = membership
        self._timeout = membership.timeout
        self._operations = Operations(membership)
        self._submissions: deque[tuple[memoryview, int, int]] = deque()
        self._submitted = 0
        self._stats = ClientStats()
        self._failure: EngineFailure | None = None
        self._stopping = False
        self._progress = time.monotonic()
        self._next_check = 0.0
        self._busy_since = self._stalled_since = 0.0
        self._changed = threading.Condition()
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._servers = [self._server(number, sock) for number, sock in enumerate(sockets)]
        self._thread = threading.Thread(target=self._run, name="rsctl-client", daemon=True)
        self._thread.start()

    def _server(self, number: int, sock: socket.socket) -> _Server:
        membership = self._membership
        check = FrameCheck(
            _KINDS, membership.schedule.frame, membership.epoch, membership.job, None
        )
        connection = Connection(sock, membership.schedule.frame, check)
        server = _Server(number, membership.schedule.windows[number], connection)
        self._selector.register(sock, selectors.EVENT_READ, server)
        return server

    def submit(self, data: memoryview, dtype: int, op: int) -> int:
        """See ClientEngine."""
        with self._changed:
            self._submitted += 1
            sequence = self._submitted
            self._submissions.append((data.cast("B"), dtype, op))
        self._notify()
        return sequence

    def set_timeout(self, timeout: float) -> None:
        """See ClientEngine."""
        self._timeout = timeout

    def wait(self, sequence: int, timeout: float | None) -> bool:
        """See ClientEngine."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.completed >= sequence or self._failure is not None, timeout
            )
        return self.completed >= sequence

    @property
    def completed(self) -> int:
        """See ClientEngine."""
        return self._operations.completed

    @property
    def committed(self) -> int:
        """See ClientEngine."""
        return max(server.committed for server in self._servers)

    def failure(self) -> EngineFailure | None:
        """See ClientEngine."""
        return self._failure

    def stats(self) -> ClientStats:
        """See ClientEngine."""
        stats, now = self._stats, time.monotonic()
        connections = [server.connection for server in self._servers]
        return ClientStats(
            bytes_in=sum(connection.bytes_in for connection in connections),
            bytes_out=sum(connection.bytes_out for connection in connections),
            operations=self._operations.completed,
            reduced=stats.reduced,
            busy=stats.busy + (now - self._busy_since if self._busy_since else 0),
            stalled=stats.stalled + (now - self._stalled_since if self._stalled_since else 0),
        )

    def stop(self) -> None:
        """See ClientEngine."""
        self._stopping = True
        self._notify()
        self._thread.join()

    def _notify(self) -> None:
        with contextlib.suppress(OSError):  # when it has ended, and closed its side
            self._wake.send(b"!")

    def _run(self) -> None:
        failure = EngineFailure(ErrorCode.CLOSED, 0, NO_RANK, 0, "")
        try:
            while not self._stopping or self._submissions:
                self._turn()
            failure = EngineFailure(ErrorCode.CLOSED, 0, NO_RANK, self._operations.oldest, "")
        except _Failed as failed:
            failure = failed.failure
        finally:
            self._end(failure)

    def _turn(self) -> None:
        pause = min(self._membership.silence / HEARTBEATS / 2, self._timeout / 4)
        for key, events in self._selector.select(PROMPT_SECONDS if self._has_unreported else pause):
            if key.data is None:
                self._take_submissions()
            else:
                self._serve(key.data, events)
        self._send_blocks()
        self._keep_alive()

    def _take_submissions(self) -> None:
        self._woken.recv(4096)
        while self._submissions:
            if not self._operations.oldest:
                self._progress = self._busy_since = time.monotonic()
            self._operations.begin(*self._submissions.popleft())

    def _send_blocks(self) -> None:
        """Queue blocks in their order as far as the windows allow."""
        operations = self._operations
        while (block := operations.next_block()) is not None:
            operation, chunk = block
            schedule = self._membership.schedule
            server = self._servers[schedule.server_of(operation.sequence, chunk)]
            if server.room == 0:
                self._stalled_since = self._stalled_since or time.monotonic()
                return
            self._count_stall()
            server.room -= 1
            header = operation.sent(chunk, operations.completed)
            server.connection.queue(header, operation.block(chunk))
            server.reported = operations.completed
            operations.taken()
            self._flush(server)

    def _count_stall(self) -> None:
        if self._stalled_since:
            self._stats.stalled += time.monotonic() - self._stalled_since
            self._stalled_since = 0.0

    def _serve(self, server: _Server, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(server)
            if events & selectors.EVENT_READ:
                for header, payload in server.connection.receive():
                    self._handle(server, header, payload)
        except ConnectionClosed as ended:
            raise self._failed(ErrorCode.LOST, server, str(ended)) from None
        except FrameError as error:
            raise self._failed(ErrorCode.PROTOCOL, server, str(error)) from None

    def _handle(self, server: _Server, header: Header, payload: memoryview) -> None:
        if header.kind != frames.ERROR and header.completed > self._operations.completed:
            text = f"operation {header.completed} is not finished here, and so not everywhere"
            raise FrameError(text)
        server.committed = max(server.committed, header.completed)
        if header.kind == frames.RESULT:
            self._progress = time.monotonic()
            server.waits_for = NO_RANK
            finished = self._operations.receive(header, payload, server.number)
            server.room += 1
            if finished:
                self._finish(header.total)
        elif header.kind == frames.HEARTBEAT:
            server.waits_for = header.rank
        else:
            code, text = known_code(header.code), printable(payload)
            failed = self._failed(code, server, text, header.rank, remote=True)
            failed.failure = replace(failed.failure, relayed=frames.blamed(header))
            raise failed

    def _finish(self, total: int) -> None:
        self._stats.reduced += total
        if not self._operations.oldest:
            self._stats.busy += time.monotonic() - self._busy_since
            self._busy_since = 0.0
        with self._changed:
            self._changed.notify_all()

    def _flush(self, server: _Server) -> None:
        connection = server.connection
        before = connection.busy
        try:
            connection.flush()
        except ConnectionClosed as ended:
            # The ERROR that the reducer sent before it closed explains more than the failed send.
            self._serve(server, selectors.EVENT_READ)
            raise self._failed(ErrorCode.LOST, server, str(ended)) from None
        if connection.busy or before:
            wanted = _READ_WRITE if connection.busy else selectors.EVENT_READ
            self._selector.modify(connection.sock, wanted, server)

    def _keep_alive(self) -> None:
        now, membership = time.monotonic(), self._membership
        if now < self._next_check and not self._has_unreported:
            return
        self._next_check = now + min(membership.silence / HEARTBEATS, self._timeout / 2) / 2
        for server in self._servers:
            connection = server.connection
            is_quiet = now - connection.last_received > membership.silence / HEARTBEATS
            if is_quiet and connection.has_partial_frame:  # parts of it may have come
                self._serve(server, selectors.EVENT_READ)
            if now - connection.last_received > membership.silence:
                raise self._failed(ErrorCode.SILENT, server, f"{membership.silence:g} s")
            pause = PROMPT_SECONDS if self._is_behind(server) else membership.silence / HEARTBEATS
            if now - connection.last_sent > pause and not connection.busy:
                connection.queue(self._heartbeat(frames.HEARTBEAT))
                server.reported = self._operations.completed
                self._flush(server)
        if self._operations.oldest and now - self._progress > self._timeout:
            waiting = [server for server in self._servers if server.waits_for != NO_RANK]
            server = (waiting or self._servers)[0]
            raise self._failed(ErrorCode.DEADLINE, server, f"{self._timeout:g} s", server.waits_for)

    @property
    def _has_unreported(self) -> bool:
        idle = not self._operations.oldest
        return idle and any(self._is_behind(server) for server in self._servers)

    def _is_behind(self, server: _Server) -> bool:
        """Whether a heartbeat must report what is completed; under way, blocks report it."""
        return not self._operations.oldest and server.reported < self._operations.completed

    def _heartbeat(self, kind: int) -> bytes:
        membership = self._membership
        fields = {"rank": membership.rank, "epoch": membership.epoch, "job": membership.job}
        return frames.header(kind, completed=self._operations.completed, **fields).pack()

    def _failed(
        self,
        code: ErrorCode,
        server: _Server,
        detail: str,
        rank: int = NO_RANK,
        remote: bool = False,
    ) -> _Failed:
        oldest = self._operations.oldest
        return _Failed(EngineFailure(code, server.number, rank, oldest, detail, remote))

    def _end(self, failure: EngineFailure) -> None:
        """Wake all who wait here, and send GOODBYE or ERROR to the reducers."""
        clean = failure.code is ErrorCode.CLOSED and not failure.sequence
        membership = self._membership
        with self._changed:
            self._failure = failure
            self._changed.notify_all()
        if clean:
            last = self._heartbeat(frames.GOODBYE)
        else:
            rank = membership.rank if failure.code is ErrorCode.CLOSED else failure.rank
            about = rank, failure.sequence, membership.epoch, membership.job, failure.blamed
            last = frames.error_frame(failure.wire_code, failure.message(), *about)
        close_gracefully([server.connection for server in self._servers], last)
        self._selector.close()
        self._woken.close()
        self._wake.close()
