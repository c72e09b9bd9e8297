"""Finds and strikes the ranks' scripts of a run on one node; standard library only.

rsctl imports it for nodes that are processes of this machine, and runs its text with the Python of
a container for nodes that are containers: `python - RUN ACTION`, whose last line is JSON.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from typing import Optional

_WRAPPER = "/rsctl/node/rank.py"
"""The program of rsctl that starts the script of each rank under torchrun and mpirun."""
_LAUNCHER = "rsctl.node.launch"
_REDUCER = "rsctl.transport.reduce"
_OURS = "rsctl_start.py"
_END_SECONDS = 10.0


def environ(pid: int) -> dict[str, str]:
    """The variables of a process. Raises OSError."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        rows = file.read().decode(errors="surrogateescape").split("\0")
    return dict(row.split("=", 1) for row in rows if "=" in row)


def parent(pid: int) -> int:
    """The parent of a process. Raises OSError."""
    with open(f"/proc/{pid}/stat", errors="replace") as file:
        return int(file.read().rpartition(") ")[2].split()[1])


def command(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def of_run(run: str) -> dict[int, dict[str, str]]:
    """The variables of all processes of a run, by process id."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                variables = environ(int(entry))
            except OSError:
                continue
            if variables.get("RSCTL_RUN") == run:
                found[int(entry)] = variables
    return found


def scripts(pids: list[int]) -> list[int]:
    """The ranks' scripts among the processes of a node: the children of what starts them.

    Without a launcher of rsctl it is the node's first process.
    """
    parents = {}
    for pid in pids:
        try:
            parents[pid] = parent(pid)
        except OSError:
            continue
    for starter in (_WRAPPER, _LAUNCHER):
        found = [pid for pid, above in parents.items() if starter in command(above)]
        found = [pid for pid in found if _OURS not in command(pid)]
        if found:
            return found
    roots = [pid for pid, above in parents.items() if above not in parents]
    return [pid for pid in roots if _LAUNCHER not in command(pid)][:1]


def reducers(pids: list[int]) -> list[int]:
    """The programs of a reducer among the processes of a node, without what started them."""
    return [pid for pid in pids if _REDUCER in command(pid)]


def below(roots: list[int], pids: list[int]) -> list[int]:
    """The processes among `pids` that are in `roots` or descend from them."""
    found = set(roots)
    for _ in pids:
        more = set()
        for pid in set(pids) - found:
            try:
                if parent(pid) in found:
                    more.add(pid)
            except OSError:
                continue
        if not more:
            break
        found |= more
    return sorted(found)


def kill(pids: list[int]) -> list[int]:
    """SIGKILL; returns the processes that have ended by it."""
    struck = []
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            struck.append(pid)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + _END_SECONDS
    while any(map(is_alive, struck)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [pid for pid in struck if not is_alive(pid)]


def state(pid: int) -> str:
    """The letter of proc(5) for a process's state; X if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            return file.read().rpartition(") ")[2].split()[0]
    except OSError:
        return "X"


def is_alive(pid: int) -> bool:
    """Whether a process has not ended."""
    return state(pid) not in "XZ"


def limit_files(pids: list[int], limit: Optional[int]) -> list[int]:
    """Let processes write no byte beyond a file's first `limit`; None removes the limit.

    A write beyond it writes nothing and fails, as on a full disk, with EFBIG instead of ENOSPC.
    Returns the processes that have the limit.
    """
    struck = []
    for pid in pids:
        try:
            hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if limit is None else limit, hard))
            struck.append(pid)
        except (ProcessLookupError, PermissionError, ValueError):
            continue
    return struck


def main() -> None:
    """Strike this container, and print what was struck."""
    run, action = sys.argv[1:3]
    known = of_run(run)
    ranks = scripts(list(known))
    if action == "replica":
        found = [v["RSCTL_REPLICA"] for v in known.values() if "RSCTL_REPLICA" in v]
        print(json.dumps(found[:1]))
    elif action in ("kill", "kill-reducer"):
        # The first process of a container cannot be killed from within.
        wanted = ranks if action == "kill" else reducers(list(known))
        print(json.dumps(wanted), flush=True)  # their end may end the container, and this program
        if wanted != [1]:
            print(json.dumps(kill(wanted)))
    else:
        limit = 0 if action == "fill" else None
        print(json.dumps(limit_files(below(ranks, list(known)), limit)))


if __name__ == "__main__":
    main()
