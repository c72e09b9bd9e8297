"""The proof that each task of a job gives before the job starts, where the job will run.

    python3 .../rsctl_start.py rsctl.node.platforms.slurm_probe ROLE FIRST FOLDER TOKEN

The batch script has written TOKEN into FOLDER/token. A task that reads it there sees the same
folder as the batch script's node; where the task is in a container, the folder is mounted there.
The task then writes a file, and prints the replica that it is and free ports of its node:

    rsctl-probe worker 1 gpu-2 21345 22764 …

Ports are below those that Linux gives to outgoing connections, so that no connection takes them
before the job listens there. The batch script chooses one that no other replica at the same address
has.

The proof includes that this Python can run the job's part of rsctl. The file parses on Python 3.7,
see interpreter.py.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import time
from collections.abc import Mapping

from rsctl.node import interpreter

_SEEN_SECONDS = 90.0
"""An NFS client may hold the attributes of a folder for 60 s (nfs(5), acdirmax)."""

_PORTS = range(18000, 32000)
_OFFERED = 6


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Prove the folder and print the line; returns the exit code."""
    role, first, folder, token = arguments
    node = environ.get("SLURMD_NODENAME") or socket.gethostname()
    problem = _python_problem() or _problem(folder, token, node)
    if problem is not None:
        print(f"rsctl-probe-failed {node} {problem}", flush=True)
        return 1
    index = int(first) + int(environ.get("SLURM_PROCID", "0"))
    ports = " ".join(map(str, free_ports(_OFFERED)))
    print(f"rsctl-probe {role} {index} {node} {ports}", flush=True)
    return 0


def _python_problem() -> str | None:
    """Why this Python cannot run a task; None if it can."""
    found = interpreter.too_old()
    if found is None:
        try:
            from rsctl.node import node  # noqa: F401
            from rsctl.node.platforms import slurm_task  # noqa: F401
        except ImportError as error:
            found = interpreter.incomplete(error)
    if found is None:
        return None
    remedy = "load another one in targets.slurm.setup, or use another image"
    return f"has an unfit Python: {found['message']}; {remedy}"


def _problem(folder: str, token: str, node: str) -> str | None:
    """Why the folder is not the batch script's, or cannot be written; None if all is well."""
    until = time.monotonic() + float(os.environ.get("RSCTL_SLURM_SEEN_SECONDS", _SEEN_SECONDS))
    while True:
        problem = _unseen(folder, token)
        if problem is None:
            break
        if time.monotonic() > until:
            return problem
        time.sleep(0.5)
    path = os.path.join(folder, f"seen-{node}-{os.getpid()}")
    try:
        with open(path, "x", encoding="utf-8"):
            pass
        os.remove(path)
    except OSError as error:
        return f"cannot write in {folder}: {error.strerror}"
    return None


def _unseen(folder: str, token: str) -> str | None:
    path = os.path.join(folder, "token")
    try:
        with open(path, encoding="utf-8") as file:
            found = file.read().strip()
    except OSError as error:
        return f"cannot read {path}, which the batch script wrote: {error.strerror}"
    return None if found == token else f"{path} has other content than the batch script wrote"


def free_ports(count: int) -> list[int]:
    """Different ports that are free on all addresses of this node, in a random order."""
    held: list[socket.socket] = []
    try:
        for port in random.sample(_PORTS, len(_PORTS)):
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                listener.bind(("", port))
            except OSError:
                listener.close()
                continue
            held.append(listener)
            if len(held) == count:
                break
        return [listener.getsockname()[1] for listener in held]
    finally:
        for listener in held:
            listener.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
