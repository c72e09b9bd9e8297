"""Replaces ssh for mpirun: it has MPI's daemon started on another node of the job.

    python .../rsctl_start.py rsctl.node.mpi.agent HOST COMMAND...

COMMAND is what mpirun would give to a shell over there: perhaps assignments first, then the daemon
with its arguments, each in quotes. Only the daemon's name and the arguments are passed on; the node
has the environment of its own image.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rsctl.node.cluster import Cluster
from rsctl.node.errors import LaunchError
from rsctl.node.mpi import protocol
from rsctl.node.platforms import read_cluster

_FAILED = 255  # as in ssh
_WAITS = (0.2, 0.5, 1.0, 2.0)
"""Seconds before the next try, where a node's connection is lost."""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the daemon on the node until it has ended; returns its exit code."""
    try:
        cluster = read_cluster(environ)
        index = _index(arguments[0], cluster)
        identity = protocol.Identity(
            environ["RSCTL_TOKEN"].encode(), environ.get("RSCTL_RUN", ""), index
        )
        address = (cluster.workers[index], cluster.port)
        sock = _requested(address, identity, {"daemon": daemon_command(arguments[1:])})
        while True:
            kind, data = protocol.read_frame(sock)
            if kind == protocol.EXIT:
                return int(data)
            os.write(2 if kind == protocol.STDERR else 1, data)
    except (OSError, LaunchError, ValueError, LookupError) as error:
        host = " ".join(arguments[:1])
        print(f"rsctl: cannot start MPI's daemon on {host}: {error}", file=sys.stderr)
        return _FAILED


def _requested(
    address: tuple[str, int], identity: protocol.Identity, fields: dict[str, Any]
) -> socket.socket:
    """The connection on which the daemon runs. One that is lost before its answer is tried again.

    Raises OSError.
    """
    for seconds in _WAITS:
        try:
            return protocol.request(address, identity, fields)
        except (ConnectionError, TimeoutError):
            time.sleep(seconds)
    return protocol.request(address, identity, fields)


def daemon_command(words: Sequence[str]) -> list[str]:
    """The daemon and its arguments, without the assignments before it and without quotes.

    A daemon that went into the background would outlive its connection, so it stays.
    """
    first = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    program = re.split(r"[;\s]+", " ".join(words[:first]).strip())[-1]
    options = shlex.split(" ".join(words[first:]))
    return [os.path.basename(program), *(word for word in options if word != "--daemonize")]


def _index(host: str, cluster: Cluster) -> int:
    """Which worker mpirun means; it may have left out the domain. Raises LookupError."""
    names = [name.lower() for name in cluster.workers]
    if host.lower() in names:
        return names.index(host.lower())
    found = [n for n, name in enumerate(names) if name.partition(".")[0] == host.lower()]
    if len(found) != 1:
        raise LookupError("it is not a node of this job")
    return found[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
