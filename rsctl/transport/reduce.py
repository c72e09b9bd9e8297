"""`rsctl-reduce`: one reducer, until SIGTERM or SIGINT.

    RSCTL_TOKEN=... RSCTL_RUN=... rsctl-reduce --interface eth0

Prints a line of JSON when it listens, a telemetry line at each interval, and a last one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping

from rsctl.transport.engine_interface import ReducerStats
from rsctl.transport.engines import engine_name, reducer_engine
from rsctl.transport.errors import TransportError, format_os_error
from rsctl.transport.server import DEFAULT_MEMORY, Reducer
from rsctl.transport.settings import (
    DEFAULT_PORT,
    format_address,
    read_run,
    read_tls,
    read_token,
    wants_core,
)
from rsctl.transport.stop_signals import StopSignals

_USAGE = 2
_ENVIRONMENT = 3
_POLL_SECONDS = 0.2
_SHOWN_RANKS = 4
_SIOCGIFADDR = 0x8915


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; 2 for wrong settings, 3 if the address cannot be bound."""
    options = _parse(arguments)
    stop = StopSignals(signal.SIGTERM, signal.SIGINT)
    core = wants_core(os.environ)
    try:
        host = options.bind or interface_address(options.interface)
        reducer = _start(options, host, core, os.environ)
    except TransportError as error:
        return _refuse(error.message, _USAGE)
    except OSError as error:
        where = options.bind or options.interface
        return _refuse(f"cannot listen on {where}: {format_os_error(error)}", _ENVIRONMENT)
    _emit("reducer", {"address": format_address(reducer.address), "engine": engine_name(core)})
    _serve(reducer, stop, options.telemetry, options.once)
    reducer.close()
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="rsctl-reduce",
        description="Sum the gradients of a run's workers. RSCTL_RUN and RSCTL_TOKEN "
        "identify the run.",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--bind", metavar="ADDRESS", help="listen on this address only")
    where.add_argument("--interface", metavar="NAME", help="listen on this interface only")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="default: %(default)s")
    parser.add_argument(
        "--lanes",
        type=int,
        default=1,
        metavar="N",
        help="number of ranks of a node that first reduce among themselves: each is a separate run",
    )
    parser.add_argument("--once", action="store_true", help="exit when all workers have left")
    parser.add_argument(
        "--telemetry", type=float, default=30.0, metavar="SECONDS", help="0: only the last line"
    )
    parser.add_argument(
        "--memory", type=int, default=DEFAULT_MEMORY, metavar="BYTES", help="default: %(default)s"
    )
    return parser.parse_args(arguments)


def _start(
    options: argparse.Namespace, host: str, core: bool, environ: Mapping[str, str]
) -> Reducer:
    """The reducer of all lanes; port 0 is any free one."""
    token, run, tls = read_token(environ), read_run(environ), read_tls(environ)
    return Reducer(
        host,
        options.port,
        token,
        run,
        lambda group: reducer_engine(group, core),
        options.memory,
        environ.get("RSCTL_TRANSPORT_CONGESTION") or None,
        tls,
        options.lanes,
    )


def interface_address(name: str) -> str:
    """The IPv4 address of a network interface. Raises OSError if it has none."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", name.encode()[:15])
        answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
    return socket.inet_ntoa(answer[20:24])


def _serve(reducer: Reducer, stop: StopSignals, interval: float, once: bool) -> None:
    report = ReducerReport(reducer)
    next_report = time.monotonic() + interval
    while not stop.wait(_POLL_SECONDS):
        if once and _have_all_left(reducer):
            break
        if interval and time.monotonic() >= next_report:
            next_report += interval
            _emit("telemetry", {"reducer": report.read()})
    _emit("telemetry", {"reducer": report.read()})


def _have_all_left(reducer: Reducer) -> bool:
    """Whether all workers have said goodbye."""
    outcome = reducer.outcome()
    return outcome is not None and outcome.code is None


class ReducerReport:
    """The work of a reducer since the last reading, and in total."""

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer
        self._time = time.monotonic()
        self._bytes = (0, 0)

    def read(self) -> dict[str, object]:
        """The fields of a telemetry line: counters of the epoch, Gbit/s since the last reading,
        and the ranks whose blocks came latest after the first."""
        flows, now = self._reducer.stats(), time.monotonic()
        passed = max(now - self._time, 1e-9)
        total = (sum(flow.bytes_in for flow in flows), sum(flow.bytes_out for flow in flows))
        # A new epoch counts from 0.
        since = [b - a if b >= a else b for a, b in zip(self._bytes, total, strict=True)]
        self._time, self._bytes = now, total
        outcome = self._reducer.outcome()
        return {
            "epoch": self._reducer.epoch,
            "members": max((flow.members for flow in flows), default=0),
            "blocks": sum(flow.blocks for flow in flows),
            "bytes_in": total[0],
            "bytes_out": total[1],
            "gbps_in": round(since[0] * 8e-9 / passed, 3),
            "gbps_out": round(since[1] * 8e-9 / passed, 3),
            "refused": self._reducer.refused,
            "late": _latest(flows),
            "ended": outcome.message if outcome is not None else None,
        }


def _latest(flows: list[ReducerStats]) -> list[dict[str, object]]:
    """The ranks that others wait for most; mean and most are milliseconds."""
    ranks = range(max((len(flow.late_mean) for flow in flows), default=0))
    late = [
        (
            max(flow.late_mean[rank] for flow in flows),
            max(flow.late_most[rank] for flow in flows),
            rank,
        )
        for rank in ranks
    ]
    return [
        {"rank": rank, "mean_ms": round(mean * 1e3, 3), "most_ms": round(most * 1e3, 3)}
        for mean, most, rank in sorted(late, reverse=True)[:_SHOWN_RANKS]
    ]


def _emit(kind: str, fields: Mapping[str, object]) -> None:
    """Print a line, unless the reader of standard output has gone: workers still need the sums."""
    data = (json.dumps({"rsctl": kind, **fields}) + "\n").encode()
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]


def _refuse(message: str, code: int) -> int:
    print(f"rsctl-reduce: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
