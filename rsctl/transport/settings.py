"""Settings of a worker or reducer, from the environment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rsctl.transport.cost_model import Links, net_rate
from rsctl.transport.errors import ErrorCode, TransportError
from rsctl.transport.frames import MAX_FRAME
from rsctl.transport.handshake import MAX_RUN_BYTES, SMALLEST_TOKEN
from rsctl.transport.server import MAX_WINDOW
from rsctl.transport.tls_identity import IDENTITY_VARIABLE, TLS_VARIABLE, is_enabled

if TYPE_CHECKING:
    from rsctl.transport.tls import Tls

DEFAULT_PORT = 29600
"""The port of a reducer whose address names none."""

Address = tuple[str, int]

_UNKNOWN_BANDWIDTH = 1e9  # only ratios count where nothing is known


@dataclass(frozen=True)
class WorkerSettings:
    """One worker's settings.

    `reducers` and `peers` are addresses: of the dedicated reducers, and of the reducers that the
    workers host, by rank; `peers` is empty if the workers must exchange them. `bind` is the address
    that this worker's own reducer listens on; None finds the address that leads to the others.
    Bandwidths are in bit/s, 0 if unknown, one for each reducer. Times are in seconds: `silence`
    before a peer is given up, `timeout` without progress before an operation fails, `patience` for
    reducers that do not listen yet. With `tls`, no connection is without.
    """

    run: str
    token: bytes = field(repr=False)
    rank: int
    world: int
    reducers: tuple[Address, ...]
    epoch: int = 0
    peers: tuple[Address, ...] = ()
    bind: str | None = None
    bandwidth: float = 0
    reducer_bandwidths: tuple[float, ...] = ()
    mtu: int = 1500
    frame: int | None = None
    window: int | None = None
    flows: int = 1
    silence: float = 8.0
    timeout: float = 1800.0
    patience: float = 60.0
    core: bool = True
    congestion: str | None = None
    tls: Tls | None = field(default=None, repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> WorkerSettings:
        """Read a worker's settings. Raises TransportError, which names the variable."""
        flows = int(_number(environ, "RSCTL_TRANSPORT_FLOWS", 1, lowest=1, highest=64))
        reducers = parse_addresses(environ, "RSCTL_REDUCERS")
        world = int(_number(environ, "WORLD_SIZE", None, lowest=1))
        bandwidth = _number(environ, "RSCTL_NET_BANDWIDTH", 0)
        return cls(
            run=read_run(environ),
            token=read_token(environ),
            rank=int(_number(environ, "RANK", None, highest=world - 1)),
            world=world,
            reducers=reducers,
            epoch=_epoch(environ),
            peers=parse_addresses(environ, "RSCTL_PEERS"),
            bind=environ.get("RSCTL_TRANSPORT_BIND") or None,
            bandwidth=bandwidth,
            reducer_bandwidths=_bandwidths(environ, len(reducers)),
            mtu=int(_number(environ, "RSCTL_TRANSPORT_MTU", 1500, lowest=576)),
            frame=_optional(environ, "RSCTL_TRANSPORT_FRAME", 4096, MAX_FRAME),
            window=_optional(environ, "RSCTL_TRANSPORT_WINDOW", 1, MAX_WINDOW),
            flows=flows,
            silence=_number(environ, "RSCTL_TRANSPORT_SILENCE", cls.silence, lowest=0.1),
            timeout=_number(environ, "RSCTL_TRANSPORT_TIMEOUT", cls.timeout, lowest=0.1),
            patience=_number(environ, "RSCTL_TRANSPORT_PATIENCE", cls.patience),
            core=wants_core(environ),
            congestion=environ.get("RSCTL_TRANSPORT_CONGESTION") or None,
            tls=read_tls(environ),
        )

    @property
    def links(self) -> Links:
        """The pool's network cards; equal ones where nothing is known of them."""
        worker = self.bandwidth or _UNKNOWN_BANDWIDTH
        reducers = self.reducer_bandwidths or (worker,) * len(self.reducers)
        known = tuple(net_rate(bits or worker, self.mtu) for bits in reducers)
        return Links(self.world, net_rate(worker, self.mtu), known)


def read_token(environ: Mapping[str, str]) -> bytes:
    """The run's secret. Raises TransportError if there is none, or a short one."""
    token = environ.get("RSCTL_TOKEN", "").encode()
    if len(token) < SMALLEST_TOKEN:
        raise _invalid(f"RSCTL_TOKEN must be a secret of at least {SMALLEST_TOKEN} bytes")
    return token


def read_tls(environ: Mapping[str, str]) -> Tls | None:
    """TLS by the run's identity, if it is asked for. Raises TransportError."""
    try:
        if not is_enabled(environ.get(TLS_VARIABLE, "")):
            return None
    except ValueError as error:
        raise _invalid(str(error)) from None
    from rsctl.transport.tls import Tls  # `ssl` costs 10 ms and more

    return Tls(environ.get(IDENTITY_VARIABLE, ""), wants_core(environ))


def wants_core(environ: Mapping[str, str]) -> bool:
    """Whether the engine in C++ may be used, where it is built."""
    return environ.get("RSCTL_TRANSPORT_CORE", "on") != "off"


def read_run(environ: Mapping[str, str]) -> str:
    """The run's id. Raises TransportError if there is none that the protocol can carry."""
    run = environ.get("RSCTL_RUN", "")
    if not 1 <= len(run.encode()) <= MAX_RUN_BYTES:
        raise _invalid(f"RSCTL_RUN must be a run ID of 1 to {MAX_RUN_BYTES} bytes, not {run!r}")
    return run


def parse_addresses(environ: Mapping[str, str], name: str) -> tuple[Address, ...]:
    """A list of host:port, separated by commas. Raises TransportError."""
    return tuple(
        parse_address(entry.strip(), name)
        for entry in environ.get(name, "").split(",")
        if entry.strip()
    )


def parse_address(text: str, name: str) -> Address:
    """host, host:port or [address]:port; `name` is what is wrong in the TransportError."""
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 <= int(port) < 1 << 16:
        raise _invalid(f"{name} has {text!r}, which is not host:port")
    return host, int(port)


def format_address(address: Address) -> str:
    """An address as it is written."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _epoch(environ: Mapping[str, str]) -> int:
    name = "RSCTL_EPOCH" if "RSCTL_EPOCH" in environ else "TORCHELASTIC_RESTART_COUNT"
    return int(_number(environ, name, 0, highest=(1 << 32) - 1))


def _bandwidths(environ: Mapping[str, str], count: int) -> tuple[float, ...]:
    name = "RSCTL_REDUCER_BANDWIDTH"
    texts = [text for text in environ.get(name, "").split(",") if text.strip()]
    if len(texts) not in (0, 1, count):
        raise _invalid(f"{name} has {len(texts)} numbers, but there are {count} reducers")
    values = tuple(_number({name: text}, name, None) for text in texts)
    return values * count if len(values) == 1 else values


def _optional(environ: Mapping[str, str], name: str, lowest: int, highest: int) -> int | None:
    if not environ.get(name):
        return None
    return int(_number(environ, name, None, lowest, highest))


def _number(
    environ: Mapping[str, str],
    name: str,
    default: float | None,
    lowest: float = 0,
    highest: float = math.inf,
) -> float:
    text = environ.get(name) or ("" if default is None else str(default))
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not lowest <= value <= highest or value == math.inf:
        most = "" if highest == math.inf else f" and at most {highest:.10g}"
        raise _invalid(f"{name} must be a number of at least {lowest:g}{most}, not {text!r}")
    return value


def _invalid(message: str) -> TransportError:
    return TransportError(ErrorCode.SETTINGS, message)
