"""Each benchmark in its shortest form, to see that it still runs: the figures mean nothing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.measure import ROOT, Failed
from benchmarks.report import Report

Need = Callable[[], str | None]
"""Why a benchmark cannot run here; None if it can."""


def linux() -> str | None:
    """For what reads /proc."""
    return None if sys.platform == "linux" else "it needs Linux"


def shaped_network() -> str | None:
    """For network namespaces with shaped links."""
    if linux() or os.geteuid() != 0:
        return "it needs Linux and root, to make network namespaces"
    missing = [program for program in ("ip", "tc") if shutil.which(program) is None]
    return f"it needs the program {missing[0]} of iproute2" if missing else None


def torch() -> str | None:
    """For training scripts."""
    return (
        None if importlib.util.find_spec("torch") else "it needs torch: install the extra `local`"
    )


def test_base() -> str | None:
    """For builds upon the tests' base image."""
    return _missing_image(os.environ.get("RSCTL_BASE", "rsctl-test-base:1"), ".ci/test-base")


def slurm_image() -> str | None:
    """For jobs on a real Slurm."""
    return _missing_image("rsctl-test-slurm:24.11", ".ci/slurm 24.11")


def _missing_image(image: str, maker: str) -> str | None:
    try:
        found = subprocess.run(["docker", "image", "inspect", image], capture_output=True)
    except OSError:
        return "it needs Docker"
    return f"it needs the image {image}: run {maker}" if found.returncode else None


class Quick(NamedTuple):
    """The settings of `run` in a benchmark's shortest form, or the arguments of its own program."""

    settings: dict[str, Any] = {}
    program: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()

    def obstacle(self) -> str | None:
        """Why it cannot run here; None if it can."""
        return next(filter(None, (need() for need in self.needs)), None)


QUICK = {
    "startup": Quick({"is_compared": False}),
    "submit": Quick(),
    "stream": Quick({"lines": 2000}),
    "intake": Quick({"size": 100_000}, needs=(linux,)),
    "clouds": Quick(),
    "image": Quick(needs=(test_base,)),
    "preemptions": Quick({"targets": ("process",)}, needs=(linux, torch)),
    "slurm": Quick(needs=(slurm_image,)),
    "quota": Quick({"jobs": 10, "pace": 0.05}),
    "advise": Quick({"is_kept": False}, needs=(shaped_network, torch)),
    "armed": Quick({"steps": 10}, needs=(linux, torch)),
    "checks": Quick({}, needs=(linux,)),
    "hangs": Quick({"kinds": ("a killed reducer",)}, needs=(linux, torch)),
    "gate": Quick(program=("--trials", "1")),
    "convergence": Quick(program=("--quick",), needs=(shaped_network, torch)),
    "transport": Quick(program=("n4m4-1000", "--runs", "1"), needs=(shaped_network, torch)),
}


def run_program(name: str, arguments: tuple[str, ...]) -> Report:
    """A benchmark that has a program of its own, by that. Raises Failed."""
    began = time.monotonic()
    argv = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise Failed(done.stderr)
    report = Report(name, f"python -m benchmarks.{name} {' '.join(arguments)}")
    report.add("all", "wall s", [time.monotonic() - began])
    return report
