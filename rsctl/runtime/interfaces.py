"""The interface that a node talks to the others by: the one that its platform names, or found."""

from __future__ import annotations

from dataclasses import replace

from rsctl.runtime import rank
from rsctl.runtime.cluster import LOCAL, Cluster
from rsctl.runtime.network import interface_names, interface_towards


def named_interface(cluster: Cluster) -> str | None:
    """The interface that the platform names, if this node has it; says so if it has not.

    rsctl's own targets know what they name.
    """
    name = cluster.interface
    if name is None or cluster.platform == LOCAL or name in interface_names():
        return name
    finding = {
        "severity": "warning",
        "code": "interface-missing",
        "message": f"{cluster.platform} names the network interface {name}, and this node has "
        f"{', '.join(interface_names())}; the one that leads to the other nodes is used",
        "remedy": "Set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME in run.env if that is wrong.",
    }
    rank.emit("finding", finding)
    return None


def with_interface(cluster: Cluster) -> Cluster:
    """The cluster with the interface that leads to the others, where a cloud has named none.

    Their names must resolve by now.
    """
    if cluster.platform == LOCAL or cluster.interface is not None:
        return cluster
    others = [host for host in cluster.hosts if host != cluster.own_host]
    return replace(cluster, interface=interface_towards(others))
