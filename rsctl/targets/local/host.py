"""The facts of this machine that a local plan depends on: cores, GPUs, paths, limits."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from rsctl.runs.home import home

_CAP_SYS_RESOURCE = 24


@dataclass(frozen=True)
class LocalMachine:
    """This machine: usable CPU cores, NVIDIA GPUs, the Python in use, the runs' home.

    `may_lock_memory`: containers here can be given the unlimited memlock that RDMA needs.
    """

    cpus: int
    gpus: int
    python: str
    home: Path
    loopback: str
    may_lock_memory: bool


def this_host() -> LocalMachine:
    """The machine that this process runs on."""
    return LocalMachine(
        cpus=_usable_cpus(),
        gpus=_count_gpus(Path("/dev")),
        python=sys.executable,
        home=home(),
        loopback="lo" if sys.platform == "linux" else "lo0",
        may_lock_memory=_may_lift_limits(),
    )


def _usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _may_lift_limits() -> bool:
    """Not where root itself, and so a Docker engine beside us, is confined (a nested container)."""
    if os.geteuid() != 0:
        return True
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return True
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return not capabilities or bool(int(capabilities[1], 16) >> _CAP_SYS_RESOURCE & 1)


def _count_gpus(devices: Path) -> int:
    try:
        names = os.listdir(devices)
    except OSError:
        return 0
    return sum(1 for name in names if re.fullmatch(r"nvidia\d+", name))
