"""Runs a profiler beside or around a rank; `rank.py` loads this file by its path.

    python -I -S rank_profiler.py PID FILE COMMAND...     samples the process PID by py-spy

py-spy runs beside the rank, since as its parent it would hide the rank's exit code. NVIDIA's nsys
can only start what it profiles, and passes the exit code on. PyTorch's profiler runs in the rank
(`rsctl.transport.pytorch.profiling`), which also begins and ends the others at steps of the script.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in rank.py
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from subprocess import Popen

TOOL = "RSCTL_PROFILE"
"""The variable with the profiler: torch, py-spy or nsys."""
RANKS = "RSCTL_PROFILE_RANKS"
"""The variable with the ranks that are profiled, such as 0,8."""
STEPS = "RSCTL_PROFILE_STEPS"
"""The variable with the first and the last step of the profile, such as 10..20."""

FOLDER = "rsctl-profile"
"""The folder of the profiles in the outputs."""

_SUFFIXES = {"torch": ".trace.json.gz", "py-spy": ".folded.txt", "nsys": ".nsys-rep"}
_END_SECONDS = 30.0
_TRIES = 40
_PAUSE_SECONDS = 0.1
_PR_SET_PTRACER = 0x59616D61


def wanted_ranks(environ: Mapping[str, str]) -> list[int]:
    """The ranks that are profiled; none without a profiler."""
    names = environ.get(RANKS, "").split(",") if environ.get(TOOL) in _SUFFIXES else []
    return [int(name) for name in names if name.isascii() and name.isdigit()]


def folder_of(environ: Mapping[str, str]) -> str:
    """The folder of the profiles, in the outputs if the job has any."""
    return os.path.join(environ.get("RSCTL_OUTPUT_DIR") or _temporary(environ), FOLDER)


def file_of(environ: Mapping[str, str], rank: int) -> str:
    """The file with the profile of a rank."""
    return os.path.join(folder_of(environ), f"rank-{rank}{_SUFFIXES[environ[TOOL]]}")


def log_of(environ: Mapping[str, str], rank: int) -> str:
    """The file with the output of a rank's py-spy."""
    return os.path.join(folder_of(environ), f"rank-{rank}.py-spy.log")


def find_tool(environ: Mapping[str, str]) -> str | None:
    """The path of py-spy or nsys: beside this Python, or in PATH."""
    name = environ[TOOL]
    folders = [os.path.dirname(sys.executable), *environ.get("PATH", os.defpath).split(os.pathsep)]
    paths = (os.path.join(folder, name) for folder in folders if folder)
    return next((p for p in paths if os.path.isfile(p) and os.access(p, os.X_OK)), None)


def wrapped(command: list[str], environ: Mapping[str, str], rank: int) -> list[str]:
    """The command of a rank, started by nsys if that profiles the rank."""
    tool = _tool(environ, rank, "nsys")
    if tool is None:
        return command
    capture = ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    return [
        *(tool, "profile", "--trace=cuda,nvtx,osrt,cublas,cudnn", "--sample=none"),
        *(capture if environ.get(STEPS) else []),
        *("--force-overwrite=true", "--output", file_of(environ, rank)),
        *command,
    ]


def start_sampler(
    child: int, command: Sequence[str], environ: Mapping[str, str], rank: int
) -> Popen[bytes] | None:
    """Sample the process of a rank from its start on, if py-spy profiles the rank as a whole."""
    tool = None if environ.get(STEPS) else _tool(environ, rank, "py-spy")
    if tool is None:
        return None
    import subprocess

    file = file_of(environ, rank)
    own = [sys.executable, "-I", "-S", os.path.abspath(__file__), str(child), file]
    is_python = os.path.basename(command[0]).startswith("python")
    try:
        with open(log_of(environ, rank), "wb") as log:
            return subprocess.Popen(
                [*own, *sampler_command(tool, child, file, not is_python)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
    except OSError:
        return None  # the node reports that there is no profile


def end_sampler(sampler: Popen[bytes] | None) -> None:
    """Wait until a sampler, whose process has ended, has written its file."""
    if sampler is None:
        return
    import subprocess

    try:
        sampler.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        sampler.kill()


def sampler_command(tool: str, pid: int, file: str, with_children: bool) -> list[str]:
    """py-spy for a process, without an end."""
    options = ["--subprocesses"] if with_children else []
    options += ["--format", "raw", "--full-filenames", "--nonblocking"]
    return [tool, "record", "--pid", str(pid), *options, "--output", file]


def allow_tracing(environ: Mapping[str, str], tracer: int) -> None:
    """Let a process and its children trace this one, also after exec, where Yama restricts that.

    Only for py-spy. Source: Linux, admin-guide/LSM/Yama.rst.
    """
    if environ.get(TOOL) == "py-spy" and sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, tracer, 0, 0, 0)


def _tool(environ: Mapping[str, str], rank: int, name: str) -> str | None:
    """The path of a profiler if it is the one that profiles a rank, with its folder made."""
    if environ.get(TOOL) != name or rank not in wanted_ranks(environ):
        return None
    try:
        os.makedirs(folder_of(environ), exist_ok=True)
        if os.path.exists(file_of(environ, rank)):
            os.remove(file_of(environ, rank))
    except OSError:
        return None  # the node reports that there is no profile
    return find_tool(environ)


def _temporary(environ: Mapping[str, str]) -> str:
    return environ.get("TMPDIR") or "/tmp"  # noqa: S108 - where the container has nothing else


def _sample(pid: int, file: str, command: list[str]) -> None:
    """Run py-spy until it has sampled a process to its end.

    A process that has just started is not the script's Python yet.
    """
    import subprocess
    import time

    for _ in range(_TRIES):
        time.sleep(_PAUSE_SECONDS)
        if subprocess.run(command, check=False).returncode == 0 and os.path.exists(file):
            return
        if not os.path.exists(f"/proc/{pid}"):
            return


if __name__ == "__main__":
    _sample(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
