"""Which nodes tell each other that they are there: see presence.py."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from rsctl.runtime.cluster import Cluster
from rsctl.runtime.environment import patience
from rsctl.runtime.network import address_of, is_loopback
from rsctl.runtime.platforms import platform
from rsctl.runtime.presence import Presence, port_of
from rsctl.runtime.refusal import ENVIRONMENT, Refusal
from rsctl.runtime.threads import deaf_to_signals
from rsctl.runtime.watch import Attendance, Watch


def attend(cluster: Cluster, environ: Mapping[str, str]) -> Presence | None:
    """Be present at the reducers' nodes, if this is a worker's and they need to know."""
    if cluster.role != "worker" or not _is_needed(cluster, environ):
        return None
    reducers = list(zip(cluster.reducers, cluster.reducer_ports, strict=True))
    with deaf_to_signals():
        return Presence(reducers, cluster.index, _run(environ), _token(environ))


def watch(cluster: Cluster, environ: Mapping[str, str]) -> Watch | None:
    """End this process by SIGTERM when the workers' nodes have gone, if it is a reducer's and
    nobody else would.

    Raises Refusal if the workers could not reach it.
    """
    if cluster.role != "reducer" or not _is_needed(cluster, environ):
        return None
    count = len(cluster.workers)
    port = port_of(cluster.reducer_ports[cluster.index])
    attendance = Attendance(count, patience(cluster, environ))
    try:
        with deaf_to_signals():
            return Watch(
                (_address(cluster), port), attendance, count, _run(environ), _token(environ), _end
            )
    except OSError as error:
        raise Refusal(
            ENVIRONMENT,
            "watch-address",
            f"cannot listen on port {port}, where workers say that they are there: {error}",
            "See what else listens there, and take it out of the image.",
        ) from error


def _is_needed(cluster: Cluster, environ: Mapping[str, str]) -> bool:
    """Without a token there is nobody to believe; the reducer's program refuses that itself."""
    return bool(cluster.reducers and environ.get("RSCTL_TOKEN")) and (
        platform(cluster.platform).reducers_end
    )


def _address(cluster: Cluster) -> str:
    """Where this node listens, as its reducer does. Raises OSError."""
    if cluster.interface is None or is_loopback(cluster.own_host):
        return cluster.own_host
    return address_of(cluster.interface)


def _run(environ: Mapping[str, str]) -> str:
    return environ.get("RSCTL_RUN", "")


def _token(environ: Mapping[str, str]) -> bytes:
    return environ["RSCTL_TOKEN"].encode()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
