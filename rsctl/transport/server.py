"""One reducer: its listener, and the epoch of each lane that it serves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rsctl.transport import frames
from rsctl.transport.connection import configure_socket
from rsctl.transport.engine_interface import EpochGroup, EpochOutcome, ReducerEngine, ReducerStats
from rsctl.transport.errors import ErrorCode, TransportError
from rsctl.transport.handshake import Channel, Hello
from rsctl.transport.listener import MAX_HANDSHAKES, HandshakeListener

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
    """A flow of an epoch: the HELLO of its first worker, and the ranks that have joined."""

    first: Hello
    engine: ReducerEngine
    ranks: set[int] = field(default_factory=set)


def lane_run(run: str, lane: int) -> str:
    """The run id that the workers of a lane give to a reducer."""
    return f"{run}.{lane}" if lane else run


class Reducer:
    """Serves one run on one port. `memory` is a limit in bytes for each lane.

    Ranks of one number on every node form a lane, which is a run of its own by `lane_run`: clouds
    open one port between nodes, and the run id of HELLO says which lane is meant. With `tls` it
    admits no connection without it.
    """

    def __init__(
        self,
        host: str,
        port: int,
        token: bytes,
        run: str,
        engine: Callable[[EpochGroup], ReducerEngine],
        memory: int = DEFAULT_MEMORY,
        congestion: str | None = None,
        tls: Tls | None = None,
        lanes: int = 1,
    ) -> None:
        """Raises OSError if the address cannot be bound."""
        self._run = run
        names = [lane_run(run, lane) for lane in range(lanes)]
        self._lanes = {name: _Lane(engine, memory, congestion) for name in names}
        self._host = host
        self._listener = HandshakeListener(
            host, port, token, self._admit, tls, MAX_HANDSHAKES * lanes
        )

    @property
    def address(self) -> tuple[str, int]:
        """The host and port that it listens on."""
        return self._host, self._listener.port

    @property
    def epoch(self) -> int | None:
        """The latest epoch that is or was served; None before the first worker."""
        epochs = [lane.epoch for lane in self._lanes.values() if lane.epoch is not None]
        return max(epochs, default=None)

    @property
    def refused(self) -> int:
        """How many connections were refused."""
        return self._listener.refused

    def outcome(self) -> EpochOutcome | None:
        """How the current epoch ended; None while a lane is active, and before the first."""
        return _combine([lane.outcome() for lane in self._lanes.values()])

    def stats(self) -> list[ReducerStats]:
        """The counters of the current epoch, one for each flow of each lane."""
        return [stats for lane in self._lanes.values() for stats in lane.stats()]

    def close(self, message: str = "the reducer was stopped") -> None:
        """Stop listening, send the reason to the workers, and free everything."""
        self._listener.close()
        for lane in self._lanes.values():
            lane.close(message)

    def _admit(self, channel: Channel, hello: Hello, ready: bytes) -> None:
        lane = self._lanes.get(hello.run)
        if lane is None:
            reason = f"this reducer serves run {self._run}, not {hello.run}"
            raise TransportError(ErrorCode.MISMATCH, reason)
        lane.admit(channel, hello, ready)


class _Lane:
    """One lane of a reducer: the newest epoch and its flows."""

    def __init__(
        self, engine: Callable[[EpochGroup], ReducerEngine], memory: int, congestion: str | None
    ) -> None:
        self._engine = engine
        self._memory = memory
        self._congestion = congestion
        self._lock = threading.Lock()
        self._flows: dict[int, _Flow] = {}

    @property
    def epoch(self) -> int | None:
        """The epoch that is or was served last; None before the first worker."""
        return next((flow.first.epoch for flow in self._flows.values()), None)

    def outcome(self) -> EpochOutcome | None:
        """How the current epoch ended; None while it is active, and before the first."""
        return _combine([flow.engine.outcome() for flow in list(self._flows.values())])

    def stats(self) -> list[ReducerStats]:
        """The counters of the current epoch, one for each flow."""
        return [flow.engine.stats() for flow in list(self._flows.values())]

    def close(self, message: str) -> None:
        """Send the reason to the workers, and free everything."""
        with self._lock:
            self._stop(ErrorCode.STOPPED, message)

    def _stop(self, code: ErrorCode, message: str) -> None:
        for flow in self._flows.values():
            flow.engine.stop(code, message)

    def admit(self, channel: Channel, hello: Hello, ready: bytes) -> None:
        """Admit a worker. Raises TransportError to refuse it."""
        with self._lock:
            flow = self._flow_for(hello)
            if hello.rank in flow.ranks:
                raise TransportError(ErrorCode.MISMATCH, f"rank {hello.rank} is already connected")
            ended = self.outcome()
            if ended is not None:
                reason = f"epoch {hello.epoch} has ended: {ended.message}"
                raise TransportError(ended.code or ErrorCode.LEFT, reason)
            channel.sock.sendall(ready)
            configure_socket(channel.wire, hello.timeout / 1000, self._congestion)
            flow.ranks.add(hello.rank)
            flow.engine.adopt(channel.sock, hello.rank)

    def _flow_for(self, hello: Hello) -> _Flow:
        _check_limits(hello)
        epoch = self.epoch
        if epoch is not None and hello.epoch < epoch:
            text = f"rank {hello.rank} is of epoch {hello.epoch}; epoch {epoch} runs"
            raise TransportError(ErrorCode.SUPERSEDED, text)
        served = {n: flow.first for n, flow in self._flows.items() if hello.epoch == epoch}
        _check_memory(list({hello.flow: hello, **served}.values()), self._memory)
        if epoch is not None and hello.epoch > epoch:
            text = f"epoch {epoch} was followed by epoch {hello.epoch}"
            self._stop(ErrorCode.SUPERSEDED, text)
            self._flows.clear()
        flow = self._flows.get(hello.flow)
        if flow is None:
            flow = self._flows[hello.flow] = _Flow(hello, self._engine(_group(hello)))
        _check_same(flow.first, hello)
        return flow


def _combine(outcomes: list[EpochOutcome | None]) -> EpochOutcome | None:
    """The outcome of parts: the first failure at once, a good end when all have ended."""
    failed = [outcome for outcome in outcomes if outcome is not None and outcome.code is not None]
    if failed:
        return failed[0]
    return outcomes[0] if outcomes and all(outcomes) else None


def _group(hello: Hello) -> EpochGroup:
    return EpochGroup(
        world=hello.world,
        frame=hello.frame,
        window=hello.window,
        epoch=hello.epoch,
        job=frames.job_number(hello.run),
        silence=hello.timeout / 1000,
    )


def _check_limits(hello: Hello) -> None:
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
        raise TransportError(ErrorCode.LIMIT, text)


def _check_memory(flows: Sequence[Hello], memory: int) -> None:
    """Each flow has blocks of its own, and the limit is for all of them."""
    needed = sum(MEMORY_FACTOR * flow.world * flow.window * flow.frame for flow in flows)
    if needed > memory:
        each = f" with {len(flows)} flows each" if len(flows) > 1 else ""
        text = (
            f"{flows[0].world} workers{each} could need {needed} bytes here; the limit is {memory}"
        )
        raise TransportError(ErrorCode.LIMIT, text)


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
            ErrorCode.MISMATCH, "the workers disagree about this run's " + "; ".join(differing)
        )
