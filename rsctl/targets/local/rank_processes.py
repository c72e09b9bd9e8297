"""Finds the processes of a local run's ranks."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rsctl.node.process_tree import read_process
from rsctl.targets.local import strike_program

_WRAPPER = b"/rsctl/node/rank.py"


class RankProcess(NamedTuple):
    """The process of a rank, and the replica that it belongs to."""

    rank: int
    replica: str
    pid: int


def rank_processes(run: str) -> list[RankProcess]:
    """The process of each rank that runs on this machine, by rank; needs /proc.

    Processes that a rank has started, such as those of a data loader, are left out, and so are
    rsctl's own process that starts the script and waits for it, and a launcher of the user's own.
    """
    found, of_node = {}, set[int]()
    for pid, variables in strike_program.of_run(run).items():
        with suppress(OSError, ValueError):
            rank = variables.get("RANK") or variables.get("NODE_RANK", "")  # with launcher once
            if rank.isdigit() and not _is_wrapper(pid):
                replica = variables.get("RSCTL_REPLICA", "")
                found[pid] = RankProcess(int(rank), replica, pid), read_process(pid).parent
                if not variables.get("RANK"):
                    of_node.add(pid)
    with_ranks = {rank.replica for pid, (rank, _) in found.items() if pid not in of_node}
    for pid in of_node:
        if found[pid][0].replica in with_ranks:
            del found[pid]
    first = [rank for rank, parent in found.values()
             if parent not in found or found[parent][0].rank != rank.rank]  # fmt: skip
    return sorted(first)


def _is_wrapper(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    own = words[: words.index(b"--")] if b"--" in words else []
    return any(word.endswith(_WRAPPER) for word in own)
