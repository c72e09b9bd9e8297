"""Whether the processes of this node make progress, by counters of the kernel and of the ranks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rsctl.node.process_tree import trees
from rsctl.node.small_files import fields

IDLE_CPU = 0.1
"""Processors that processes which only wait may use: heartbeats, polls of a launcher."""
IDLE_BYTES = 8192
"""Bytes a second that they may read and write."""
IDLE_NETWORK_BYTES = 32768
"""Bytes a second that their node may receive and send: keepalives, probes of peers."""
IDLE_GPU = 5.0
"""Percent of a GPU's time."""

Counters = Mapping[int, Mapping[str, Mapping[str, int]]]
"""By rank and process group, how many collectives were called and have ended."""


class Sample(NamedTuple):
    """Counters at one moment: seconds, bytes; `own` is what the ranks wrote to answer us.

    `runnable` is whether a process could run, even if a busy machine gives it no processor.
    """

    time: float
    cpu: dict[int, float]
    moved: dict[int, int]
    own: int
    runnable: bool
    network: int | None
    gpu_percent: float
    counters: Counters


class Use(NamedTuple):
    """The activity between two samples.

    `moved` is data; `busy` is the use of a processor or a GPU, which a process that waits may have,
    too, and `waits` whether a rank has called a collective that has not ended.
    """

    moved: bool
    busy: bool
    waits: bool


def take_sample(
    roots: Iterable[int],
    own_bytes: int,
    counters: Counters,
    network: Callable[[], int | None],
    gpu_percent: Callable[[], float],
) -> Sample:
    """The counters of these processes and of their descendants, and of the node."""
    now, here, ticks = time.monotonic(), os.getpid(), os.sysconf("SC_CLK_TCK")
    below = [process for process in trees(roots) if process.pid != here]
    return Sample(
        time=now,
        cpu={process.pid: process.cpu_ticks / ticks for process in below},
        moved={process.pid: moved_bytes(process.pid) for process in below},
        own=own_bytes,
        runnable=any(process.state == "R" for process in below),
        network=network(),
        gpu_percent=gpu_percent(),
        counters=counters,
    )


def use_between(before: Sample, after: Sample) -> Use:
    """The activity of the processes between two samples."""
    seconds = max(0.001, after.time - before.time)
    cpu = _grown(before.cpu, after.cpu)
    moved = _grown(before.moved, after.moved) - after.own
    network = 0
    if before.network is not None and after.network is not None:
        network = after.network - before.network
    return Use(
        moved=moved > IDLE_BYTES * seconds or network > IDLE_NETWORK_BYTES * seconds,
        busy=cpu > IDLE_CPU * seconds or after.runnable or after.gpu_percent > IDLE_GPU,
        waits=any(
            group.get("called", 0) > group.get("ended", 0)
            for groups in after.counters.values()
            for group in groups.values()
        ),
    )


def _grown(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """By how much counters have grown in all; of a new process, all of it."""
    return sum(max(0, value - before.get(pid, 0)) for pid, value in after.items())


def moved_bytes(pid: int) -> int:
    """The bytes that a process has read and written by files and pipes; 0 if that is unknown.

    `rchar` and `wchar` of /proc/PID/io (kernel, proc.rst) count what the page cache served, too,
    and leave out what `recv` and `send` move.
    """
    moved = fields(f"/proc/{pid}/io")
    return int(moved.get("rchar", 0)) + int(moved.get("wchar", 0))
