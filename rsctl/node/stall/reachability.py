"""Which nodes of the job this node cannot reach by the network."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence

from rsctl.node.network import is_loopback

_SECONDS = 3.0
_MOST_NODES = 128


def start_reaching(hosts: Sequence[str], own: int, port: int) -> Callable[[], list[int]]:
    """Try to connect to all nodes but `own`, in threads. The function that this returns waits a few
    seconds at most and returns the numbers of the nodes whose machine has not answered.

    A refused connection is an answer. Nodes of one machine always reach each other.
    """
    others = {number: host for number, host in enumerate(hosts[:_MOST_NODES]) if number != own}
    if any(is_loopback(host) for host in hosts):
        others = {}
    reached: set[int] = set()

    def connect(number: int, host: str) -> None:
        try:
            socket.create_connection((host, port), _SECONDS).close()
        except ConnectionRefusedError:
            pass
        except (OSError, UnicodeError):
            return
        reached.add(number)

    threads = [
        threading.Thread(target=connect, args=other, daemon=True)  # a resolver may take long
        for other in others.items()
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + _SECONDS + 0.5

    def unreached() -> list[int]:
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        return sorted(set(others) - reached)

    return unreached
