"""The versions of Python, torch, NCCL, driver and rsctl on this node, and its machine.

One structured line, `versions`, once the node's command has ended: before that it could land within
a line of the script. torch is not imported for it: versions come from the metadata of the installed
packages, from the driver's own library, or from NCCL's file.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from rsctl import __version__
from rsctl.node.clocks import cpu_clock
from rsctl.node.nvml import Nvml
from rsctl.node.structured_lines import emit

if TYPE_CHECKING:
    from rsctl.node.check.nccl import Torch

_NCCL_PACKAGE = "nvidia_nccl_cu"
_TIMEOUT_SECONDS = 5.0
_CPU_INFO = "/proc/cpuinfo"
_CPU_NAMES = ("model name", "Model", "Hardware")


class VersionReport:
    """Collects the versions while the command runs: some of them lie in large files."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._versions: dict[str, str] = {}
        self._thread = threading.Thread(target=self._collect, args=(environ,), daemon=True)
        self._thread.start()

    def _collect(self, environ: Mapping[str, str]) -> None:
        self._versions = versions(environ)

    def finish(self) -> None:
        """Print the line, after the shortest job too."""
        self._thread.join(_TIMEOUT_SECONDS)
        if self._versions:
            emit("versions", self._versions)


def versions(environ: Mapping[str, str]) -> dict[str, str]:
    """All that is known, as texts."""
    gpus = Nvml.load()
    from rsctl.node.check.nccl import find_torch

    torch = find_torch()
    found = {
        "rsctl_version": __version__,
        "python": sys.version.split()[0],
        "torch": torch.version if torch else None,
        "nccl": _packaged_nccl() or _nccl_of(torch, environ),
        "driver": gpus.driver() if gpus else None,
        "kernel": os.uname().release,
    }
    return {name: value for name, value in found.items() if value} | machine(gpus)


def machine(gpus: Nvml | None) -> dict[str, str]:
    """The part of it that says on which kind of machine this runs, with these GPUs."""
    found = {
        "gpu": _counted(gpus.names()) if gpus else None,
        "gpu_clock": _joined(gpus.highest_clocks()) if gpus else None,
        "cpu": _cpu(),
        "cores": str(_cores()),
        "clock": cpu_clock(),
    }
    return {name: value for name, value in found.items() if value}


def _packaged_nccl() -> str | None:
    """The version of the NCCL that pip has installed, the one of the latest CUDA.

    importlib.metadata would cost each launch 25 ms of processor time.
    """
    found = []
    for folder in sys.path:
        with suppress(OSError):
            found += [name for name in os.listdir(folder) if name.startswith(_NCCL_PACKAGE)]
    return max(found, default="").removesuffix(".dist-info").partition("-")[2] or None


def _nccl_of(torch: Torch | None, environ: Mapping[str, str]) -> str | None:
    """The version in the file of the NCCL that torch uses: a torch of conda has it built in."""
    if torch is None:
        return None
    from rsctl.node.check.loader import Loader
    from rsctl.node.check.nccl import find_nccl

    try:
        nccl = find_nccl(torch, Loader(environ))
    except (OSError, ValueError, ImportError):
        return None
    return nccl.version if nccl else None


def _counted(names: list[str]) -> str | None:
    """`8 x NVIDIA A100-SXM4-40GB`; several kinds are joined."""
    kinds = [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
    return ", ".join(kinds) or None


def _joined(clocks: list[int]) -> str | None:
    """`1410 MHz`; several are joined."""
    return " and ".join(f"{mhz} MHz" for mhz in sorted(set(clocks))) or None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu() -> str | None:
    try:
        with open(_CPU_INFO, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in _CPU_NAMES and value.strip():
                    return value.strip()
    except OSError:
        pass
    return os.uname().machine or None
