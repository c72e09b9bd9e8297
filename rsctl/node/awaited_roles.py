"""A chief whose end is the job's waits for the other workers, and for the nodes of roles that end
by themselves.

On Vertex AI everything else is stopped when the chief has ended. So these nodes report
to the chief that they are alive, by the protocol of liveness.py with sides changed: the chief
listens, and its node ends only when all of them have said goodbye. One that fails says none: it
ends the job by its exit code, which the chief's success must not forestall.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rsctl.node.cluster import Cluster
from rsctl.node.environment import peer_timeout
from rsctl.node.liveness import liveness_port
from rsctl.node.rank import STOP_SIGNALS
from rsctl.node.roles import AWAITED_ROLES
from rsctl.node.threads import stop_signals_blocked

if TYPE_CHECKING:  # few jobs have such roles
    from rsctl.node.liveness_client import LivenessClient

PORT = 3334
"""The chief listens one below: 3333 is one of the ports that Vertex AI documents as open."""

_RECONNECT_SECONDS = 600.0
"""A node that has failed ends the job before, or the platform starts it again."""

_POLL_SECONDS = 0.2


def start_client(cluster: Cluster, environ: Mapping[str, str]) -> LivenessClient | None:
    """Report to the chief, if this is a node whose end it waits for."""
    nodes = _awaited(cluster, environ)
    if cluster.replica not in nodes:
        return None
    from rsctl.node.liveness_client import LivenessClient

    run, token = environ.get("RSCTL_RUN", ""), environ["RSCTL_TOKEN"].encode()
    with stop_signals_blocked():
        return LivenessClient([(cluster.chief, PORT)], nodes.index(cluster.replica), run, token)


def start_server(cluster: Cluster, environ: Mapping[str, str]) -> AwaitedRoles | None:
    """Listen for the nodes that this one, the chief's, has to wait for, if there are any.

    Raises LaunchError if they could not reach it.
    """
    nodes = _awaited(cluster, environ)
    if not nodes or cluster.replica != "worker-0":
        return None
    from rsctl.node.listener import listening

    what_for = ", where roles report that they are alive"
    with listening("watch-address", liveness_port(PORT), what_for):
        return AwaitedRoles(cluster, nodes, environ)


def end_client(client: LivenessClient, cluster: Cluster, environ: Mapping[str, str]) -> int:
    """Say goodbye to the chief, which may start minutes after this node's command has ended.

    Returns the exit code of this node: 0, or that of a stop signal.
    """
    until = time.monotonic() + peer_timeout(cluster, environ)
    while not client.is_connected and time.monotonic() < until:
        received = signal.sigtimedwait(STOP_SIGNALS, _POLL_SECONDS)
        if received is not None:
            return 128 + received.si_signo
    client.close()
    return 0


def _awaited(cluster: Cluster, environ: Mapping[str, str]) -> list[str]:
    """The replicas that the chief waits for. The chief is the first worker."""
    roles = environ.get(AWAITED_ROLES, "").split(",") if environ.get("RSCTL_TOKEN") else []
    counts = {"worker": len(cluster.workers), **{r: len(h) for r, h in cluster.roles.items()}}
    replicas = [f"{role}-{index}" for role in roles for index in range(counts.get(role, 0))]
    return [replica for replica in replicas if replica != "worker-0"]


class AwaitedRoles:
    """The nodes that a chief waits for, which it listens for."""

    def __init__(self, cluster: Cluster, nodes: list[str], environ: Mapping[str, str]) -> None:
        """Raises OSError if it cannot listen."""
        from rsctl.node.listener import own_address
        from rsctl.node.liveness_server import LivenessServer, WorkerLiveness

        self._have_ended = threading.Event()
        liveness = WorkerLiveness(len(nodes), peer_timeout(cluster, environ), _RECONNECT_SECONDS)
        address = own_address(cluster), liveness_port(PORT)
        run, token = environ.get("RSCTL_RUN", ""), environ["RSCTL_TOKEN"].encode()
        LivenessServer(address, liveness, run, token, self._have_ended.set)
        self._names = ", ".join(nodes)

    def wait(self) -> int:
        """Wait until all have ended; the exit code of this node: 0, or that of a stop signal.

        The stop signals are blocked, as after `rank.start`.
        """
        if not self._have_ended.is_set():
            print(f"rsctl: waiting for {self._names} to end", flush=True)
        while not self._have_ended.is_set():
            received = signal.sigtimedwait(STOP_SIGNALS, _POLL_SECONDS)
            if received is not None:
                return 128 + received.si_signo
        return 0
