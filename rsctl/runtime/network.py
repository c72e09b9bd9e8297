"""Which of this node's network interfaces leads to the others. IPv4, and Linux only."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress

_SIOCGIFADDR = 0x8915
_ANY_PORT = 9


def interface_names() -> list[str]:
    """The interfaces that this node has."""
    return [name for _, name in socket.if_nameindex()]


def address_of(interface: str) -> str:
    """The IPv4 address of an interface. Raises OSError if it has none."""
    if sys.platform != "linux":
        raise OSError("interfaces have addresses on Linux only")
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
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _source_address(host: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, _ANY_PORT))  # It sends nothing: it only chooses a route.
        address: str = probe.getsockname()[0]
    return address
