"""The nodes of a job and which of them this one is, the same on every platform.

`platforms.read_cluster` reads it from the platform's contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from rsctl.node.errors import USAGE, LaunchError
from rsctl.node.platforms import LOCAL
from rsctl.node.settings import number

DEFAULT_PORT = 29500
"""The rendezvous port of torchrun."""

REDUCER_PORT = 29600
"""Where a reducer listens, unless the platform says otherwise."""

REMEDY = "rsctl sets it; do not set it in run.env or in the image."
"""For a variable of rsctl's own that makes no sense."""

_BY_HAND = (
    "Start the job with `rsctl submit`; to start a container by hand, set RSCTL_CLUSTER and "
    "RSCTL_TARGET=compose."
)


class Cluster(NamedTuple):
    """The nodes of a job, and which of them this one is.

    `index` counts within the role. `workers` and `reducers` are host names or addresses.
    `interface` is the network interface that leads to the others, or None if it is unknown. `port`
    is where the first worker listens for the rendezvous, `reducer_ports` where each reducer does.
    `platform` is whose contract this was read from, one of `platforms.PLATFORMS`.

    `roles` are the hosts of the job's own roles whose nodes rsctl-launch starts. `role_hosts` has
    HOST:PORT of all workers and of all nodes of such roles (roles.py); it is empty without any.
    """

    role: str
    index: int  # type: ignore[assignment]  # and not that of a tuple
    workers: tuple[str, ...]
    reducers: tuple[str, ...]
    interface: str | None
    port: int
    reducer_ports: tuple[int, ...] = ()
    platform: str = LOCAL
    roles: Mapping[str, tuple[str, ...]] = {}
    role_hosts: Mapping[str, tuple[str, ...]] = {}

    @property
    def replica(self) -> str:
        """rsctl's name of this node on every platform: `worker-0`, `reducer-3`."""
        return f"{self.role}-{self.index}"

    @property
    def chief(self) -> str:
        """The first worker, where the ranks meet."""
        return self.workers[0]

    @property
    def master_address(self) -> str:
        """The value of torch's MASTER_ADDR. A single worker needs no name: its cloud may give it
        one that does not resolve.
        """
        is_alone = len(self.workers) == 1 and self.platform != LOCAL
        return "127.0.0.1" if is_alone else self.chief

    @property
    def own_host(self) -> str:
        """This node's name."""
        pools = {"worker": self.workers, "reducer": self.reducers, **self.roles}
        return pools[self.role][self.index]

    @property
    def reducer_addresses(self) -> str:
        """`host:port` of each reducer, with commas between: what RSCTL_REDUCERS has."""
        addresses = zip(self.reducers, self.reducer_ports, strict=True)
        return ",".join(joined(host, port) for host, port in addresses)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every node that rsctl-launch starts once, workers first."""
        return tuple(dict.fromkeys(chain(self.workers, self.reducers, *self.roles.values())))


def missing(problem: str, remedy: str = _BY_HAND) -> LaunchError:
    """Nothing describes the job's nodes to this one."""
    return LaunchError(USAGE, "cluster-missing", problem, remedy)


def invalid(problem: str, remedy: str = REMEDY) -> LaunchError:
    """The description of the job's nodes makes no sense."""
    return LaunchError(USAGE, "cluster-invalid", problem, remedy)


def joined(host: str, port: int) -> str:
    """HOST:PORT; an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def addresses(pools: Mapping[str, Iterable[tuple[str, int]]]) -> dict[str, tuple[str, ...]]:
    """HOST:PORT of nodes by their role."""
    return {role: tuple(joined(*node) for node in nodes) for role, nodes in pools.items()}


def rendezvous_port(environ: Mapping[str, str]) -> int:
    """RSCTL_PORT, if several jobs share a host, otherwise torchrun's own."""
    return int(number(environ, "RSCTL_PORT", DEFAULT_PORT))


def reducer_ports(environ: Mapping[str, str], count: int) -> tuple[int, ...]:
    """RSCTL_REDUCER_PORTS: numbers with commas between, where reducers share one host.

    Raises LaunchError if they are not one for each reducer.
    """
    if not environ.get("RSCTL_REDUCER_PORTS"):
        return (REDUCER_PORT,) * count
    texts = environ["RSCTL_REDUCER_PORTS"].split(",")
    if len(texts) != count or not all(text.isascii() and text.isdigit() for text in texts):
        given = ",".join(texts)
        raise invalid(f"the cluster has {count} reducers, but RSCTL_REDUCER_PORTS is {given!r}")
    return tuple(map(int, texts))
