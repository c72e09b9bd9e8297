"""The descendants of a process, by /proc: their use of CPU and memory, and how to kill them.

On systems without /proc there is nothing to see, and every list is empty.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from io import FileIO
from typing import NamedTuple

from rsctl.node.rank import prctl

_PR_SET_CHILD_SUBREAPER = 36
_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.005


class Process(NamedTuple):
    """One process: CPU time of it and of the children it has reaped, in clock ticks; its memory.

    `state` is the kernel's letter, such as R for one that runs or could run.
    """

    pid: int
    parent: int
    cpu_ticks: int
    rss_pages: int
    state: str


def parse_stat(text: str) -> Process:
    """Read one /proc/PID/stat."""
    # The name stands in parentheses and may itself contain spaces and parentheses.
    pid, _, rest = text.partition(" (")
    fields = rest.rpartition(") ")[2].split()
    return Process(
        pid=int(pid),
        parent=int(fields[1]),
        cpu_ticks=sum(int(ticks) for ticks in fields[11:15]),
        rss_pages=int(fields[21]),
        state=fields[0],
    )


def read_process(pid: int | str) -> Process:
    """The process with this id. Raises OSError if there is none."""
    with FileIO(f"/proc/{pid}/stat") as file:  # without the buffers and layers of `open`
        return parse_stat(file.read().decode(errors="replace"))


def tree(root: int) -> list[Process]:
    """The process `root` and all its descendants, as they are now."""
    return _below([root], _all_processes())


def trees(roots: Iterable[int]) -> list[Process]:
    """These processes and all their descendants, as they are now, each once."""
    return _below(roots, _all_processes())


def adopt_orphans() -> None:
    """Have processes whose parent dies become children of this one, as they do in a container."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def has_children() -> bool:
    """Whether this process may have children, ended ones included: the other processes of the
    machine, of which there may be thousands, are not read.
    """
    if sys.platform != "linux":  # before Python 3.13, macOS has no waitid
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def kill_descendants() -> None:
    """Kill and reap all remaining children of this process, so that the node is free again.

    It must have adopted its orphans, so that all of its descendants are below a child.
    Gives up after a while: the kernel cannot end a process that waits for a device or a file
    server, nor may this user end a process of another user.
    """
    here, deadline = os.getpid(), time.monotonic() + _KILL_SECONDS
    while has_children() and (below := [each.pid for each in tree(here) if each.pid != here]):
        for pid in below:
            with suppress(ProcessLookupError, PermissionError):  # It may go while we look.
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if time.monotonic() > deadline:
            return
        time.sleep(_POLL_SECONDS)


def _all_processes() -> list[Process]:
    processes = []
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdecimal():
            with suppress(OSError):  # It may go while we look.
                processes.append(read_process(entry))
    return processes


def _below(roots: Iterable[int], processes: list[Process]) -> list[Process]:
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    chosen = set(roots)
    found = {process.pid: process for process in processes if process.pid in chosen}
    below = list(found.values())
    for process in below:  # It grows as we go.
        new = [child for child in children.get(process.pid, ()) if child.pid not in found]
        found |= {child.pid: child for child in new}
        below += new
    return below
