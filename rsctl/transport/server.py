"""One reducer: its door, and the epoch that it serves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rsctl.transport import frames
from rsctl.transport.connection import prepare
from rsctl.transport.door import Door
from rsctl.transport.errors import Code, TransportError
from rsctl.transport.group import Ending, Group, ReducerEngine, ReducerStats
from rsctl.transport.handshake import Hello, Line

if TYPE_CHECKING:
    from rsctl.transport.tls import Tls

MAX_WORLD = 4096
MAX_WINDOW = 1024
MAX_FLOWS = 64
MEMORY_FACTOR = 6
"""Blocks that came early, sums twice as wide, results on their way, and buffers to read into."""

DEFAULT_MEMORY = 1 << 30


@dataclass
class _Flow:
    """A flow of an epoch: what its first worker said, and who has come since."""

    first: Hello
    engine: ReducerEngine
    ranks: set[int] = field(default_factory=set)


class Reducer:
    """Serves one run: whatever epoch of it is the newest. `memory` is a limit in bytes.

    With `tls` it lets nobody in without.
    """

    def __init__(
        self,
        host: str,
        port: int,
        token: bytes,
        run: str,
        engine: Callable[[Group], ReducerEngine],
        memory: int = DEFAULT_MEMORY,
        congestion: str | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Raises OSError if the address cannot be bound."""
        self._run = run
        self._engine = engine
        self._memory = memory
        self._congestion = congestion
        self._lock = threading.Lock()
        self._flows: dict[int, _Flow] = {}
        self._host = host
        self._door = Door(host, port, token, self._admit, tls)

    @property
    def address(self) -> tuple[str, int]:
        """The host and port that it listens on."""
        return self._host, self._door.port

    @property
    def epoch(self) -> int | None:
        """The epoch that is or was served last; None before the first worker."""
        return next((flow.first.epoch for flow in self._flows.values()), None)

    @property
    def refused(self) -> int:
        """How many connections were not let in."""
        return self._door.refused

    def ending(self) -> Ending | None:
        """How the current epoch ended; None while it goes on, and before the first."""
        endings = [flow.engine.ending() for flow in list(self._flows.values())]
        failed = [ending for ending in endings if ending is not None and ending.code is not None]
        if failed:
            return failed[0]
        return endings[0] if endings and all(endings) else None

    def stats(self) -> list[ReducerStats]:
        """The counters of the current epoch, one for each flow."""
        return [flow.engine.stats() for flow in list(self._flows.values())]

    def close(self, message: str = "the reducer was stopped") -> None:
        """Let nobody in any more, tell the workers, and free everything."""
        self._door.close()
        with self._lock:
            self._stop(Code.STOPPED, message)

    def _stop(self, code: Code, message: str) -> None:
        for flow in self._flows.values():
            flow.engine.stop(code, message)

    def _admit(self, line: Line, hello: Hello, ready: bytes) -> None:
        with self._lock:
            flow = self._flow_for(hello)
            if hello.rank in flow.ranks:
                raise TransportError(Code.MISMATCH, f"rank {hello.rank} is already connected")
            ended = self.ending()
            if ended is not None:
                reason = f"epoch {hello.epoch} has ended: {ended.message}"
                raise TransportError(ended.code or Code.LEFT, reason)
            line.sock.sendall(ready)
            prepare(line.wire, hello.timeout / 1000, self._congestion)
            flow.ranks.add(hello.rank)
            flow.engine.adopt(line.sock, hello.rank)

    def _flow_for(self, hello: Hello) -> _Flow:
        if hello.run != self._run:
            raise TransportError(
                Code.MISMATCH, f"this reducer serves run {self._run}, not {hello.run}"
            )
        _check_limits(hello, self._memory)
        epoch = self.epoch
        if epoch is not None and hello.epoch < epoch:
            text = f"rank {hello.rank} is of epoch {hello.epoch}; epoch {epoch} runs"
            raise TransportError(Code.SUPERSEDED, text)
        if epoch is not None and hello.epoch > epoch:
            text = f"epoch {epoch} was followed by epoch {hello.epoch}"
            self._stop(Code.SUPERSEDED, text)
            self._flows.clear()
        flow = self._flows.get(hello.flow)
        if flow is None:
            flow = self._flows[hello.flow] = _Flow(hello, self._engine(_group(hello)))
        _check_same(flow.first, hello)
        return flow


def _group(hello: Hello) -> Group:
    return Group(
        world=hello.world,
        frame=hello.frame,
        window=hello.window,
        epoch=hello.epoch,
        job=frames.job_number(hello.run),
        silence=hello.timeout / 1000,
    )


def _check_limits(hello: Hello, memory: int) -> None:
    within = (
        1 <= hello.world <= MAX_WORLD
        and hello.rank < hello.world
        and 1 <= hello.window <= MAX_WINDOW
        and 64 <= hello.frame <= frames.MAX_FRAME
        and hello.timeout >= 100
        and hello.flow < MAX_FLOWS
    )
    if not within:
        text = (
            f"rank {hello.rank} of {hello.world} asks for frames of {hello.frame} bytes, a window "
            f"of {hello.window} and {hello.timeout} ms of silence, beyond the protocol's limits"
        )
        raise TransportError(Code.LIMIT, text)
    needed = MEMORY_FACTOR * hello.world * hello.window * hello.frame
    if needed > memory:
        text = f"{hello.world} workers could need {needed} bytes here; the limit is {memory}"
        raise TransportError(Code.LIMIT, text)


def _check_same(first: Hello, hello: Hello) -> None:
    differing = [
        f"{name}: rank {first.rank} says {getattr(first, name)}, "
        f"rank {hello.rank} says {getattr(hello, name)}"
        for name in ("world", "server", "frame", "window", "timeout")
        if getattr(first, name) != getattr(hello, name)
    ]
    if first.plan != hello.plan and not differing:
        differing = [f"schedule: ranks {first.rank} and {hello.rank} computed different ones"]
    if differing:
        raise TransportError(
            Code.MISMATCH, "the workers disagree about this run's " + "; ".join(differing)
        )
