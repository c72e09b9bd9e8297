"""The client of a training process: connect, all_reduce, wait."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from rsctl.transport import frames, schedule
from rsctl.transport.connector import Endpoint, connect_all, local_address
from rsctl.transport.engine_interface import ClientEngine, ClientStats, Membership
from rsctl.transport.engines import client_engine, engine_name, reducer_engine
from rsctl.transport.errors import ErrorCode, TransportError, format_os_error
from rsctl.transport.schedule import Schedule
from rsctl.transport.server import Reducer
from rsctl.transport.settings import Address, WorkerSettings, format_address, parse_address

DTYPES = {name: number for number, name in frames.DTYPE_NAMES.items()}
OPS = {name: number for number, name in frames.OP_NAMES.items()}

_LEAVING_SECONDS = 30.0

Exchange = Callable[[str], list[str]]
"""Gives this worker's text to all workers, and returns everyone's by rank."""


class QueuedAllReduce:
    """One all-reduce in progress."""

    def __init__(
        self, engine: ClientEngine, sequence: int, failure: Callable[[], TransportError | None]
    ) -> None:
        self._engine = engine
        self._failure = failure
        self.sequence = sequence
        """The operation's number, from 1, the same on all workers."""

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the buffer holds the result.

        Raises TransportError if the operation failed, and TimeoutError after `timeout` seconds;
        then the operation continues.
        """
        if not self._engine.wait(self.sequence, timeout):
            raise self._failure() or TimeoutError(
                f"operation {self.sequence} is not finished after {timeout} s"
            )


class Transport:
    """A worker's connections to its reducers. Thread-safe; operations are in the order of calls.

    All workers must start the same operations in the same order.
    """

    def __init__(
        self,
        engine: ClientEngine,
        schedule: Schedule,
        names: list[str],
        kind: str,
        own: Reducer | None,
        tls: str | None = None,
        hosted: int = 0,
    ) -> None:
        """The last `hosted` of the reducers are parts of the workers."""
        self.schedule = schedule
        self.engine = kind
        """`core` or `python`."""
        self.reducers = tuple(names)
        """The reducers' addresses."""
        self.tls = tls
        """`core` or `relay`: what encrypts below the protocol; None without TLS."""
        self._engine = engine
        self._own = own
        self._hosted = hosted
        self._buffers: dict[int, memoryview] = {}
        self._lock = threading.Lock()

    def all_reduce(
        self,
        buffer: bytearray | memoryview,
        dtype: str = "fp32",
        op: str = "sum",
    ) -> QueuedAllReduce:
        """Begin to reduce a writable, contiguous buffer in place, and return at once.

        `dtype` is fp32, bf16, fp16, or int8 or fp8 in groups as PROTOCOL.md has them; `op` is sum
        or avg. Until the work is done the buffer must not be touched. Raises ValueError for what
        cannot be reduced, TransportError if the transport has failed before.
        """
        data = memoryview(buffer)
        if data.readonly or not data.c_contiguous:
            raise ValueError("the buffer must be writable and contiguous")
        data = data.cast("B") if data.nbytes else memoryview(bytearray())
        if dtype not in DTYPES or op not in OPS:
            known = f"{', '.join(DTYPES)} by {', '.join(OPS)}"
            raise ValueError(f"cannot reduce {dtype} by {op}: {known}")
        if data.nbytes % frames.ITEM_BYTES[DTYPES[dtype]]:
            raise ValueError(f"{data.nbytes} bytes are not a whole number of {dtype}")
        with self._lock:
            if failure := self.failure():
                raise failure
            self._release_finished()
            sequence = self._engine.submit(data, DTYPES[dtype], OPS[op])
            # The engine writes there, whether the caller still holds the buffer or not.
            self._buffers[sequence] = data
            return QueuedAllReduce(self._engine, sequence, self.failure)

    def set_timeout(self, timeout: float) -> None:
        """Fail from now on when no operation makes progress for so many seconds."""
        self._engine.set_timeout(timeout)

    def give_up(self) -> None:
        """Stop at once; what is unfinished fails on all workers, as does what they begin later."""
        self._engine.stop()

    @property
    def completed(self) -> int:
        """The last operation such that it and all before it are finished on this worker."""
        return self._engine.completed

    @property
    def committed(self) -> int:
        """The last operation such that it and all before it are finished on all workers, as far
        as is known here; those after it may be finished on some."""
        return self._engine.committed

    def _release_finished(self) -> None:
        for sequence in [number for number in self._buffers if number <= self.completed]:
            del self._buffers[sequence]

    def stats(self) -> ClientStats:
        """Bytes, seconds and stalls so far."""
        return self._engine.stats()

    def failure(self) -> TransportError | None:
        """Why the transport has failed; None while it works."""
        failure = self._engine.failure()
        return None if failure is None else failure.error(self.reducers, self._hosted)

    def close(self) -> None:
        """Leave the reducers. Operations that are not finished fail on all workers."""
        with self._lock:
            self._engine.stop()
            self._buffers.clear()
        if self._own is not None:
            self._keep_reducer_until_all_left()
            self._own.close()

    def _keep_reducer_until_all_left(self) -> None:
        """Others may still need this worker's own reducer for their last operations."""
        until = time.monotonic() + _LEAVING_SECONDS
        failure = self._engine.failure()
        if failure is not None and failure.sequence:
            return
        while self._own is not None and self._own.outcome() is None and time.monotonic() < until:
            time.sleep(0.01)

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(settings: WorkerSettings | None = None, exchange: Exchange | None = None) -> Transport:
    """Connect this worker to the reducers of its run; all workers do so together.

    `settings` come from the environment unless given. Where the dedicated reducers are too few,
    the workers reduce a share themselves, if they can learn each other's addresses: by
    `settings.peers`, or by `exchange`. Raises TransportError, which names what is wrong.
    """
    settings = settings or WorkerSettings.from_env(os.environ)
    plan = _plan(settings, can_share=bool(settings.peers or exchange))
    with contextlib.ExitStack() as undo:
        endpoints = [
            Endpoint(reducer, number, flow)
            for flow in range(settings.flows)
            for number, reducer in enumerate(settings.reducers)
        ]
        own = None
        if plan.hybrid:
            own = _own_reducer(settings)
            undo.callback(own.close)
            hosted = _peers(settings, own, exchange)
            endpoints += [
                Endpoint(peer, len(settings.reducers) + rank) for rank, peer in enumerate(hosted)
            ]
        sockets = connect_all(settings, plan, endpoints)
        membership = Membership(
            schedule=plan,
            rank=settings.rank,
            epoch=settings.epoch,
            job=frames.job_number(settings.run),
            silence=settings.silence,
            timeout=settings.timeout,
        )
        engine = client_engine(membership, sockets, settings.core)
        undo.pop_all()
    names = [format_address(endpoint.address) for endpoint in endpoints]
    tls = None if settings.tls is None else "core" if settings.tls.in_core else "relay"
    hosts = settings.world if own is not None else 0
    return Transport(engine, plan, names, engine_name(settings.core), own, tls, hosts)


def _plan(settings: WorkerSettings, can_share: bool) -> Schedule:
    links = settings.links
    # Each further flow is one more connection to the same card.
    flows = tuple(bandwidth / settings.flows for bandwidth in links.reducers) * settings.flows
    links = replace(links, reducers=flows)
    try:
        choose = schedule.plan if can_share else schedule.pure
        return choose(links, settings.frame, settings.window)
    except (ValueError, ZeroDivisionError):
        text = "RSCTL_REDUCERS names no reducer, and the workers have no addresses of each other"
        raise TransportError(ErrorCode.SETTINGS, text) from None


def _own_reducer(settings: WorkerSettings) -> Reducer:
    port = settings.peers[settings.rank][1] if settings.peers else 0
    towards = (settings.reducers or settings.peers or (("127.0.0.1", 0),))[0]
    host = settings.bind or local_address(towards)
    try:
        return Reducer(
            host,
            port,
            settings.token,
            settings.run,
            lambda group: reducer_engine(group, settings.core),
            congestion=settings.congestion,
            tls=settings.tls,
        )
    except OSError as error:
        text = (
            f"this worker cannot listen on {format_address((host, port))}: {format_os_error(error)}"
        )
        raise TransportError(ErrorCode.SETTINGS, text) from None


def _peers(settings: WorkerSettings, own: Reducer, exchange: Exchange | None) -> list[Address]:
    if exchange is None:
        peers = list(settings.peers)
    else:
        peers = [
            parse_address(text, "the exchange") for text in exchange(format_address(own.address))
        ]
    if len(peers) != settings.world:
        text = f"there are {len(peers)} addresses of workers for {settings.world} workers"
        raise TransportError(ErrorCode.SETTINGS, text)
    return peers
