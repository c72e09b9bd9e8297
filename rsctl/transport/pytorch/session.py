"""This process's session with the reducers: opened by the first user, closed at the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist

from rsctl.transport import LANGUAGES, Transport, TransportError, WorkerSettings, connect
from rsctl.transport.pytorch.gradient_pipeline import GradientPipeline
from rsctl.transport.pytorch.host_buffers import refusal
from rsctl.transport.pytorch.intra_node import intra_node
from rsctl.transport.pytorch.recovery import Recovery
from rsctl.transport.pytorch.reducer_loss import ReducerLoss
from rsctl.transport.pytorch.report import local_rank
from rsctl.transport.pytorch.settings import BindingError, CommSettings
from rsctl.transport.pytorch.telemetry import Telemetry
from rsctl.transport.pytorch.topology import RankExchange, Topology, find_topology, timeout_of
from rsctl.transport.server import lane_run


@dataclass(frozen=True)
class ReducerSession:
    """The connections to the reducers and what runs on them."""

    pipeline: GradientPipeline
    topology: Topology
    reducers: int
    telemetry: Telemetry | None

    def describe(self) -> list[str]:
        """Phrases that say who takes part."""
        transport = self.pipeline.transport
        share = "a part, workers the rest (hybrid)" if transport.schedule.hybrid else "all of it"
        noun, verb = ("reducer", "sums") if self.reducers == 1 else ("reducers", "sum")
        phrases = [self.topology.describe(), f"{self.reducers} {noun} {verb} {share}"]
        phrases.append(f"{LANGUAGES[transport.engine]} engine")
        if transport.tls is not None:
            is_relayed = transport.tls == "relay" and transport.engine == "core"
            phrases.append("TLS by a relay (no OpenSSL for the core)" if is_relayed else "TLS")
        return phrases

    def refusal(self, tensor: torch.Tensor) -> str | None:
        """Why this tensor cannot be reduced in this session; None if it can."""
        reason = refusal(tensor)
        if reason is None and tensor.device.type != self.pipeline.device.type:
            reason = f"on {tensor.device.type}"
        return reason


_session: ReducerSession | None = None
_failure: RuntimeError | None = None
_operations = 0
_opened = 0
_MOST_SESSIONS = 1 << 10  # of one start of the workers
_LARGEST = (1 << 32) - 1  # the largest epoch of a frame


def open_session(device: torch.device, comm: CommSettings) -> ReducerSession:
    """The process's session. All workers call this together when it is not open yet.

    Raises BindingError if it cannot be opened.
    """
    global _session, _failure
    if _session is None:
        try:
            _session = _open(device, comm)
        except Exception as error:
            _failure = RuntimeError(str(error))
            raise
    return _session


def current() -> ReducerSession | None:
    """The process's session, if it is open."""
    return _session


def failure() -> RuntimeError | None:
    """Why a collective of this process has failed by the reducers; None if none has."""
    return _failure or (None if _session is None else _session.pipeline.failure)


def operations() -> int:
    """How many operations have gone over the reducers until sessions were closed."""
    return _operations


def hand_over() -> None:
    """Before a collective that the caller may wait for; see GradientPipeline."""
    if _session is not None:
        _session.pipeline.hand_over()


def close_session() -> None:
    """Close the session, if it is open."""
    global _session, _failure, _operations
    if _session is not None:
        _session.pipeline.close()
        session, _session = _session, None
        _operations += session.pipeline.operations
        _failure = _failure or session.pipeline.failure
        if session.telemetry is not None:
            session.telemetry.end()


def _open(device: torch.device, comm: CommSettings) -> ReducerSession:
    global _opened
    exchange = RankExchange(f"reducers/{_opened}")
    topology = find_topology(exchange)
    timeout = timeout_of(dist.group.WORLD, device) if dist.group.WORLD else None
    transport = _connect(topology, exchange, timeout)
    _opened += 1
    loss = ReducerLoss(Recovery(topology, timeout) if comm.fallback else None, topology)
    within_node = intra_node(topology, device, timeout)
    pipeline = GradientPipeline(transport, within_node, device, loss)
    telemetry = Telemetry(transport) if local_rank() == 0 else None
    return ReducerSession(pipeline, topology, comm.reducers, telemetry)


def _connect(topology: Topology, exchange: RankExchange, timeout: float | None) -> Transport:
    """Connect to the reducers, which know this rank's lane by the id of its run."""
    ranks = {"RANK": str(topology.rank), "WORLD_SIZE": str(topology.world)}
    try:
        settings = WorkerSettings.from_env({**os.environ, **ranks})
        settings = replace(
            settings,
            run=lane_run(settings.run, topology.lane),
            epoch=_session_epoch(settings.epoch),
            rank=topology.lane_rank,
            world=len(topology.lane_ranks),
            timeout=timeout or settings.timeout,
        )
        return connect(settings, _exchange_addresses(exchange, topology))
    except TransportError as error:
        raise BindingError(
            "reducers",
            topology.name_ranks(error.message),
            "See the reducers' logs, or set reducers.count: 0.",
        ) from error


def _session_epoch(start: int) -> int:
    """The epoch of this process's next session, later than those of all sessions before it.

    A script that forms its process group again opens another session. A start's own number is
    small, or seconds of a clock, of which a session takes more than one.
    """
    is_clock = start >= _LARGEST // _MOST_SESSIONS
    return min(_LARGEST, (start if is_clock else start * _MOST_SESSIONS) + _opened)


def _exchange_addresses(exchange: RankExchange, topology: Topology) -> Callable[[str], list[str]]:
    return lambda text: exchange.all_gather("address", text, topology.lane_ranks)
