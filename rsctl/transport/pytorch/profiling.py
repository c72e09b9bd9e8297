"""Profiles steps of this rank, for the key `profile` of the job file.

A step ends with a step of the first optimizer of `torch.optim` that makes one. PyTorch's profiler
runs in this process; py-spy is started beside it, and nsys, which has started it, waits for calls
of CUDA. A problem is a finding and never an exception in the script.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import torch
import torch.distributed as dist

from rsctl.transport.pytorch.report import emit, emit_finding

TOOL, RANKS, STEPS = "RSCTL_PROFILE", "RSCTL_PROFILE_RANKS", "RSCTL_PROFILE_STEPS"
"""The variables of a profile (rsctl.node.rank_profiler)."""

_FOLDER = "rsctl-profile"
_COMMUNICATION = re.compile(r"(nccl|gloo|mpi|ucc|rsctl):|ncclDevKernel|ncclKernel|c10d::")
_TOP = 8
_LONGEST_NAME = 160
_START_SECONDS = 15.0
_END_SECONDS = 30.0
_PR_SET_PTRACER = 0x59616D61

Interval = tuple[float, float]


class Tool(Protocol):
    """A profiler that records from `start` to `stop`."""

    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> dict[str, object]:
        """End, write the file, and return the fields of the summary; empty if another program
        writes it.
        """


class Profiler:
    """Counts the steps of this process, and records some of them."""

    def __init__(self, ranks: Iterable[int], first: int, last: int, tool: str) -> None:
        self._ranks, self._first, self._last = frozenset(ranks), first, last
        self._name = tool
        self._tool: Tool | None = None
        self._optimizer: weakref.ref[Any] | None = None
        self._steps = 0
        self._is_starting = self._is_over = False

    def stepped(self, optimizer: object, *_: object) -> None:
        """An optimizer has made a step."""
        if self._is_over:
            return
        known = None if self._optimizer is None else self._optimizer()
        if known is None:
            self._optimizer = weakref.ref(optimizer)
        elif known is not optimizer:
            return
        self._steps += 1
        if self._steps == self._first - 1:
            self._begin()
        elif self._steps == self._last:
            self.end()

    def end(self) -> None:
        """End the profile, after its last step or with the script."""
        is_early = self._steps < self._last
        tool, self._tool, self._is_over = self._tool, None, True
        if tool is None:
            return
        try:
            fields = tool.stop()
            if fields:
                steps = f"{self._first}..{max(self._first, self._steps)}"
                emit("profile", {"tool": self._name, "rank": _rank(), "steps": steps, **fields})
            if is_early:
                message = f"the script of rank {_rank()} has ended after step {self._steps}, "
                self._warn(f"{message}before the last step of the profile, {self._last}")
        except Exception as problem:  # noqa: BLE001 - a script does not fail because of its profile
            self._warn(f"rank {_rank()} was not profiled: {problem}")

    def give_way(self) -> None:
        """End, because the script starts PyTorch's profiler itself."""
        if self._is_over or self._is_starting or self._name != "torch":
            return
        tool, self._tool, self._is_over = self._tool, None, True
        if tool is not None:
            with suppress(Exception):
                tool.stop()
        self._warn(f"rank {_rank()} is not profiled: the script uses PyTorch's profiler itself")

    def _begin(self) -> None:
        if _rank() not in self._ranks:
            self._is_over = True
            return
        try:
            os.makedirs(_folder(), exist_ok=True)
            tool = _TOOLS[self._name]()
            self._is_starting = True
            tool.start()
            self._tool = tool
        except Exception as problem:  # noqa: BLE001
            self._is_over = True
            self._warn(f"rank {_rank()} is not profiled: {problem}")
        finally:
            self._is_starting = False

    def _warn(self, message: str) -> None:
        remedy = "set other profile.steps, use another profile.tool, or remove profile"
        emit_finding("warning", "profile", message, remedy)


def arm(environ: Mapping[str, str]) -> None:
    """Profile this process, if the job asks for steps of its rank. Raises ValueError."""
    name, rank = environ.get(TOOL, ""), environ.get("RANK")
    ranks = [int(each) for each in environ.get(RANKS, "").split(",")]
    if name not in _TOOLS or (rank is not None and int(rank) not in ranks):
        return
    first, last = (int(each) for each in environ[STEPS].split(".."))
    from torch.optim.optimizer import register_optimizer_step_post_hook

    profiler = Profiler(ranks, first, last, name)
    register_optimizer_step_post_hook(profiler.stepped)
    _watch_own_profiles(profiler)
    atexit.register(profiler.end)


def _watch_own_profiles(profiler: Profiler) -> None:
    """Let a profile that the script makes by itself come first: PyTorch refuses a second one."""
    kind: Any = torch.autograd.profiler.profile
    real = getattr(kind, "_prepare_trace", None)
    if real is None:
        return

    @functools.wraps(real)
    def _prepare_trace(self: Any) -> Any:
        profiler.give_way()
        return real(self)

    kind._prepare_trace = _prepare_trace


class _Torch:
    """PyTorch's profiler, with a trace for chrome://tracing and perfetto.dev."""

    def start(self) -> None:
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profile = torch.profiler.profile(activities=activities)
        self._profile.start()
        self._began = time.perf_counter()

    def stop(self) -> dict[str, object]:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - self._began
        self._profile.stop()
        name = f"rank-{_rank()}.trace.json.gz"
        self._profile.export_chrome_trace(os.path.join(_folder(), name))
        profile: Any = self._profile
        events = profile.events() or []
        busy = _union(_interval(each) for each in events if _COMMUNICATION.match(each.name))
        return {
            "file": f"{_FOLDER}/{name}",
            "seconds": round(seconds, 6),
            "communication": round(min(1.0, busy / 1e6 / seconds), 4),
            "top": _top_operations(self._profile.key_averages()),
        }


class _PySpy:
    """py-spy beside this process. The node's launcher reads its file."""

    def start(self) -> None:
        beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
        tool = beside if os.access(beside, os.X_OK) else "py-spy"
        file = os.path.join(_folder(), f"rank-{_rank()}.folded.txt")
        with suppress(FileNotFoundError):
            os.remove(file)
        options = ["--format", "raw", "--full-filenames", "--nonblocking", "--output", file]
        self._process = subprocess.Popen(
            [tool, "record", "--pid", str(os.getpid()), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, self._process.pid, 0, 0, 0)
        output = self._process.stdout
        assert output is not None  # noqa: S101
        readable, _, _ = select.select([output], [], [], _START_SECONDS)
        first = os.read(output.fileno(), 4096).decode(errors="replace") if readable else ""
        if "Sampling process" not in first:
            self._process.kill()
            raise RuntimeError(f"py-spy: {first.strip()[-200:] or 'it does not start'}")

    def stop(self) -> dict[str, object]:
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=_END_SECONDS)
        return {}


class _Nsys:
    """nsys, which waits for the calls of CUDA's profiler API."""

    _cuda: Any = torch.cuda

    def start(self) -> None:
        self._cuda.synchronize()
        self._cuda.profiler.start()

    def stop(self) -> dict[str, object]:
        self._cuda.synchronize()
        self._cuda.profiler.stop()
        return {}


_TOOLS: dict[str, Callable[[], Tool]] = {"torch": _Torch, "py-spy": _PySpy, "nsys": _Nsys}


def _top_operations(averages: Iterable[Any]) -> list[tuple[str, float]]:
    """The operations with the most time of their own, on GPUs if they have used any, each with its
    part of the sum.
    """
    rows = list(averages)
    for names in (("self_device_time_total", "self_cuda_time_total"), ("self_cpu_time_total",)):
        times = [(each.key, float(_first_of(each, names))) for each in rows]
        total = sum(spent for _, spent in times)
        if total > 0:
            top = sorted(times, key=lambda row: -row[1])[:_TOP]
            return [(name[:_LONGEST_NAME], round(spent / total, 4)) for name, spent in top if spent]
    return []


def _first_of(row: object, names: Iterable[str]) -> Any:
    """The first attribute that this version of torch has."""
    return next((getattr(row, name) for name in names if hasattr(row, name)), 0)


def _interval(event: Any) -> Interval:
    return float(event.time_range.start), float(event.time_range.end)


def _union(intervals: Iterable[Interval]) -> float:
    """The length of a union of intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _rank() -> int:
    """The rank of this process: in its process group, otherwise by its launcher."""
    if dist.is_available() and dist.is_initialized():
        return int(dist.get_rank())
    return int(os.environ.get("RANK") or os.environ.get("NODE_RANK") or 0)


def _folder() -> str:
    return os.path.join(os.environ.get("RSCTL_OUTPUT_DIR") or tempfile.gettempdir(), _FOLDER)
