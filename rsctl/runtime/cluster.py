"""Who am I, and who are the others: one answer, whatever platform gives it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from rsctl.runtime.refusal import USAGE, Refusal
from rsctl.runtime.settings import number

DEFAULT_PORT = 29500
"""The rendezvous port of torchrun."""

REDUCER_PORT = 29600
"""Where a reducer listens, unless the platform says otherwise."""

_ROLES = ("worker", "reducer")


@dataclass(frozen=True)
class Cluster:
    """The nodes of a job, and which of them this one is.

    `index` counts within the role. `workers` and `reducers` are host names or addresses.
    `interface` is the network interface that leads to the others, or None where nobody knows.
    `port` is where the first worker listens for the rendezvous, `reducer_ports` where each reducer
    does.
    """

    role: str
    index: int
    workers: tuple[str, ...]
    reducers: tuple[str, ...]
    interface: str | None
    port: int
    reducer_ports: tuple[int, ...] = ()

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Cluster:
        """Read the contract of the platform that this process finds itself on.

        Raises Refusal if there is none, or if it makes no sense.
        """
        if "RSCTL_CLUSTER" in environ:
            return _from_rsctl(environ)
        raise Refusal(
            USAGE,
            "cluster-missing",
            "RSCTL_CLUSTER is not set, so this node does not know its place in the job",
            "Start the job with `rsctl submit`; to start a container by hand, set RSCTL_CLUSTER as "
            'in {"role": "worker", "index": 0, "workers": ["localhost"], "reducers": []}.',
        )

    @property
    def chief(self) -> str:
        """The first worker, where the ranks meet."""
        return self.workers[0]

    @property
    def own_host(self) -> str:
        """This node's name."""
        return (self.workers if self.role == "worker" else self.reducers)[self.index]

    @property
    def reducer_addresses(self) -> str:
        """`host:port` of each reducer, with commas between: what RSCTL_REDUCERS has."""
        places = zip(self.reducers, self.reducer_ports, strict=True)
        return ",".join(f"{host}:{port}" for host, port in places)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every node once, workers first."""
        return tuple(dict.fromkeys(self.workers + self.reducers))


def _from_rsctl(environ: Mapping[str, str]) -> Cluster:
    """The contract of rsctl's local targets: RSCTL_CLUSTER, RSCTL_PORT and RSCTL_REDUCER_PORTS."""
    try:
        fields = json.loads(environ["RSCTL_CLUSTER"])
    except ValueError as error:
        raise _invalid(f"is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise _invalid("is not a JSON object")
    role, index, interface = fields.get("role"), fields.get("index"), fields.get("interface")
    pools = {name: _hosts(fields, f"{name}s") for name in _ROLES}
    if role not in _ROLES:
        raise _invalid(f"has the role {role!r}; roles are {' and '.join(_ROLES)}")
    if not pools["worker"]:
        raise _invalid("has no workers")
    if type(index) is not int or not 0 <= index < len(pools[role]):
        raise _invalid(f"has the index {index!r}, and {len(pools[role])} {role}s")
    if interface is not None and not isinstance(interface, str):
        raise _invalid(f"has the interface {interface!r}, which is no name")
    return Cluster(
        role=role,
        index=index,
        workers=pools["worker"],
        reducers=pools["reducer"],
        interface=interface or None,
        port=int(number(environ, "RSCTL_PORT", DEFAULT_PORT)),
        reducer_ports=_reducer_ports(environ, len(pools["reducer"])),
    )


def _reducer_ports(environ: Mapping[str, str], count: int) -> tuple[int, ...]:
    """RSCTL_REDUCER_PORTS: numbers with commas between, where reducers share one host."""
    if not environ.get("RSCTL_REDUCER_PORTS"):
        return (REDUCER_PORT,) * count
    texts = environ["RSCTL_REDUCER_PORTS"].split(",")
    if len(texts) != count or not all(text.isascii() and text.isdigit() for text in texts):
        raise _invalid(f"has {count} reducers, and RSCTL_REDUCER_PORTS is {','.join(texts)!r}")
    return tuple(map(int, texts))


def _hosts(fields: dict[str, object], key: str) -> tuple[str, ...]:
    hosts = fields.get(key, [])
    if isinstance(hosts, list) and all(isinstance(host, str) and host for host in hosts):
        return tuple(hosts)
    raise _invalid(f"has {key} that are no list of host names")


def _invalid(problem: str) -> Refusal:
    return Refusal(
        USAGE,
        "cluster-invalid",
        f"RSCTL_CLUSTER {problem}",
        "rsctl sets it; do not set it in run.env or in the image.",
    )
