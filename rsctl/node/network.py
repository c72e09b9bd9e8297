"""The network interface by which this node reaches the others: IPv4, and Linux only."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress

from rsctl.node.cluster import Cluster
from rsctl.node.platforms import LOCAL
from rsctl.node.structured_lines import emit, warning

_SIOCGIFADDR = 0x8915
_ANY_PORT = 9


def named_interface(cluster: Cluster) -> str | None:
    """The interface that the platform names; None, with a finding, if this node does not have it.

    rsctl's own targets name only interfaces that exist.
    """
    name = cluster.interface
    if name is None or cluster.platform == LOCAL or name in interface_names():
        return name
    message = (
        f"{cluster.platform} names the network interface {name}, but this node has "
        f"{', '.join(interface_names())}; rsctl uses the one that leads to the other nodes"
    )
    remedy = "Set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME in run.env if that is wrong."
    emit("finding", warning("interface-missing", message, remedy))
    return None


def with_interface(cluster: Cluster) -> Cluster:
    """The cluster with the interface that leads to the others, where a cloud has named none.

    Their names must resolve by now.
    """
    if cluster.platform == LOCAL or cluster.interface is not None:
        return cluster
    others = [host for host in cluster.hosts if host != cluster.own_host]
    return cluster._replace(interface=interface_towards(others))


def interface_names() -> list[str]:
    """The interfaces that this node has."""
    return [name for _, name in socket.if_nameindex()]


def address_of(interface: str) -> str:
    """The IPv4 address of an interface. Raises OSError if it has none."""
    if sys.platform != "linux":
        raise OSError("addresses of interfaces are available only on Linux")
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode()[:15])
        answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
    return socket.inet_ntoa(answer[20:24])


def interface_towards(hosts: Iterable[str]) -> str | None:
    """The interface from which the first of these hosts that has a route is reached."""
    for host in hosts:
        with suppress(OSError, UnicodeError):
            source = _source_address(host)
            for name in interface_names():
                with suppress(OSError):  # An interface without an address.
                    if address_of(name) == source:
                        return name
    return None


def is_loopback(host: str) -> bool:
    """Whether this is an address of the loopback, written as one."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _source_address(host: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, _ANY_PORT))  # It sends nothing: it only chooses a route.
        address: str = probe.getsockname()[0]
    return address
