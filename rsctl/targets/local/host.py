"""The facts of this machine that a local plan depends on. Reading them asks nothing and nobody."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from rsctl.runs.home import home


@dataclass(frozen=True)
class Host:
    """This machine: CPU cores that may be used, NVIDIA GPUs, the Python in use, the runs' home."""

    cpus: int
    gpus: int
    python: str
    home: Path
    loopback: str


def this_host() -> Host:
    """The machine that this process runs on."""
    return Host(
        cpus=_usable_cpus(),
        gpus=_count_gpus(Path("/dev")),
        python=sys.executable,
        home=home(),
        loopback="lo" if sys.platform == "linux" else "lo0",
    )


def _usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _count_gpus(devices: Path) -> int:
    try:
        names = os.listdir(devices)
    except OSError:
        return 0
    return sum(1 for name in names if re.fullmatch(r"nvidia\d+", name))
