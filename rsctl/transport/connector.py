"""Connects a worker to its reducers, in the order of the schedule, with retries."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rsctl.transport.connection import configure_socket
from rsctl.transport.errors import ErrorCode, TransportError
from rsctl.transport.frames import FrameError
from rsctl.transport.handshake import HANDSHAKE_SECONDS, Channel, Handshake, Hello, prove_worker
from rsctl.transport.schedule import Schedule
from rsctl.transport.settings import Address, WorkerSettings, format_address

_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 1.0
_FINAL = {ErrorCode.AUTHENTICATION, ErrorCode.MISMATCH, ErrorCode.LIMIT, ErrorCode.SUPERSEDED}


@dataclass(frozen=True)
class Endpoint:
    """Where one connection goes: the reducer's address, its number, and which flow to it."""

    address: Address
    server: int
    flow: int = 0


def connect_all(
    settings: WorkerSettings, schedule: Schedule, endpoints: Sequence[Endpoint]
) -> list[socket.socket]:
    """One opened connection to each reducer. Raises TransportError that names the reducer.

    A reducer that does not listen yet is tried again until `settings.patience` is over; one that
    refuses us is not.
    """
    until = time.monotonic() + settings.patience
    opened: list[socket.socket] = []
    try:
        for number, endpoint in enumerate(endpoints):
            opened.append(_open(settings, schedule, number, endpoint, until))
    except BaseException:
        for sock in opened:
            sock.close()
        raise
    return opened


def _open(
    settings: WorkerSettings, schedule: Schedule, number: int, endpoint: Endpoint, until: float
) -> socket.socket:
    hello = Hello(
        run=settings.run,
        epoch=settings.epoch,
        rank=settings.rank,
        world=settings.world,
        server=endpoint.server,
        flow=endpoint.flow,
        frame=schedule.frame,
        window=schedule.windows[number],
        timeout=round(settings.silence * 1000),
        plan=schedule.digest(),
    )
    who, pause = f"reducer {number} ({format_address(endpoint.address)})", _FIRST_PAUSE_SECONDS
    while True:
        try:
            return _attempt(hello, endpoint.address, settings)
        except TransportError as refused:
            raise TransportError(
                refused.code, f"{who} refused: {refused.message}", number, refused.rank
            ) from None
        except (OSError, FrameError) as error:
            if time.monotonic() + pause > until:
                reason = f"{who} could not be reached in {settings.patience:g} s: {error}"
                raise TransportError(ErrorCode.UNREACHABLE, reason, number) from None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _attempt(hello: Hello, server: Address, settings: WorkerSettings) -> socket.socket:
    wire = socket.create_connection(server, timeout=HANDSHAKE_SECONDS)
    channel, handshake = Channel(wire, wire), Handshake(wire)
    try:
        configure_socket(wire, settings.silence, settings.congestion)
        if settings.tls is not None:
            channel = settings.tls.connect(wire, handshake)
            handshake = handshake.over(channel)
        prove_worker(handshake, hello, settings.token)
    except BaseException:
        channel.sock.close()
        raise
    return channel.sock


def local_address(towards: Address) -> str:
    """The address of this machine's interface that routes to that address. Raises OSError."""
    host, port = towards
    family, kind, protocol, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with contextlib.closing(socket.socket(family, kind, protocol)) as probe:
        probe.connect(target)  # sends nothing: it only chooses a route
        name: str = probe.getsockname()[0]
        return name
