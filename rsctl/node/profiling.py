"""A node's part of `profile`: whether the tool is there, and what its ranks have left.

A profile that fails never fails the job: each missing profile is a finding.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from rsctl.node.rank_profiler import (
    STEPS,
    TOOL,
    file_of,
    find_tool,
    folder_of,
    log_of,
    wanted_ranks,
)
from rsctl.node.small_files import read_text
from rsctl.node.structured_lines import emit, warning

_TOP = 8
_LONGEST_NAME = 160
_STATS_SECONDS = 120.0
_REMEDIES = {
    "torch": "use an image with torch 2.5 or later and without TORCH_DEVICE_BACKEND_AUTOLOAD=0, or "
    "profile.tool: py-spy",
    "py-spy": "install py-spy: image.python: [py-spy]",
    "nsys": "use an image.base that has NVIDIA Nsight Systems, or install it by image.run",
}

Profile = tuple[list[tuple[str, float]], float | None]
"""The summary of a profile: the top operations with their parts, and the communication's part."""


def with_usable_tool(environ: Mapping[str, str], ranks: Iterable[int]) -> Mapping[str, str]:
    """The environment, without a profiler that this node lacks for one of these ranks.

    Such a profiler is reported before the ranks start.
    """
    wanted = sorted(set(ranks) & set(wanted_ranks(environ)))
    if not wanted or _is_usable(environ):
        return environ
    tool = environ[TOOL]
    _warn(f"{_named(wanted)} not profiled: {_missing(environ)}", _REMEDIES[tool])
    return {name: value for name, value in environ.items() if name != TOOL}


def report_profiles(environ: Mapping[str, str], ranks: Iterable[int], since: float) -> None:
    """Print the summaries of profiles that tools outside of the ranks have made, and a finding for
    each rank that has left none since a time, in seconds since 1970.
    """
    for rank in sorted(set(ranks) & set(wanted_ranks(environ))):
        try:
            is_new = os.path.getmtime(file_of(environ, rank)) >= since - 1
        except OSError:
            is_new = False
        if not is_new:
            _warn(f"rank {rank} has left no profile: {_why(environ, rank)}", _remedy(environ, rank))
        elif environ[TOOL] != "torch":  # which reports itself
            _report(environ, rank)


def _is_usable(environ: Mapping[str, str]) -> bool:
    if environ[TOOL] != "torch":
        return find_tool(environ) is not None
    if environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        return False
    from importlib.metadata import PackageNotFoundError, version  # costs a launch 10 ms

    try:
        found = re.findall(r"\d+", version("torch"))
    except PackageNotFoundError:
        return False
    return tuple(map(int, found[:2])) >= (2, 5)


def _missing(environ: Mapping[str, str]) -> str:
    if environ[TOOL] == "torch":
        return "the profiler needs a torch that loads rsctl's binding, and this image has none"
    return f"this image has no {environ[TOOL]}"


def _why(environ: Mapping[str, str], rank: int) -> str:
    steps, tool = environ.get(STEPS), environ[TOOL]
    if steps:
        return f"it has not made step {steps.partition('..')[0]} with an optimizer of torch.optim"
    lines = _log_lines(environ, rank) if tool == "py-spy" else []
    return lines[-1][:300] if lines else f"{tool} has written none"


def _remedy(environ: Mapping[str, str], rank: int) -> str:
    if environ.get(STEPS):
        if environ[TOOL] == "torch":
            return "set profile.steps to steps that the script makes, or use profile.tool: py-spy"
        return "set profile.steps to steps that the script makes, or remove it"
    if any("permission" in line.lower() for line in _log_lines(environ, rank)):
        return "allow the container to trace its processes (SYS_PTRACE), or use profile.tool: torch"
    return "see the log of the rank, or use profile.tool: torch"


def _log_lines(environ: Mapping[str, str], rank: int) -> list[str]:
    lines = read_text(log_of(environ, rank), 1 << 16).splitlines()
    return [line.strip() for line in lines if line.strip()]


def _report(environ: Mapping[str, str], rank: int) -> None:
    import subprocess

    path = file_of(environ, rank)
    try:
        is_py_spy = environ[TOOL] == "py-spy"
        top, communication = _read_stacks(path) if is_py_spy else _stats(environ, path)
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        _warn(f"the profile of rank {rank} has no summary: {problem}", "open the file itself")
        top, communication = [], None
    if environ[TOOL] == "py-spy" and os.path.exists(log_of(environ, rank)):
        os.remove(log_of(environ, rank))
    fields: dict[str, object] = {"tool": environ[TOOL], "rank": rank, "steps": environ.get(STEPS)}
    fields["file"] = os.path.relpath(path, os.path.dirname(folder_of(environ)))
    fields["communication"] = communication
    fields["top"] = [(name[-_LONGEST_NAME:], round(part, 4)) for name, part in top[:_TOP]]
    emit("profile", fields)


def _read_stacks(path: str) -> Profile:
    from rsctl.node.folded_stacks import summarize_stacks

    found = summarize_stacks(path)
    return found.top, round(found.communication, 4)


def _stats(environ: Mapping[str, str], path: str) -> Profile:
    """The kernels of a report of nsys by their parts of the time on GPUs.

    Raises OSError, ValueError and SubprocessError.
    """
    import csv
    import io
    import subprocess

    command = [find_tool(environ) or "nsys", "stats", "--report", "cuda_gpu_kern_sum"]
    command += ["--format", "csv", "--force-export=true", path]
    done = subprocess.run(command, capture_output=True, timeout=_STATS_SECONDS, check=True)
    _, found, table = done.stdout.decode(errors="replace").partition("Time (%)")
    if not found:
        raise ValueError("nsys has recorded no kernels")
    rows = list(csv.DictReader(io.StringIO(found + table)))
    parts = [(str(row["Name"]), float(row["Time (%)"]) / 100) for row in rows if row.get("Name")]
    return parts, round(sum(part for name, part in parts if "nccl" in name.lower()), 4)


def _named(ranks: list[int]) -> str:
    return f"rank {ranks[0]} is" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} are"


def _warn(message: str, remedy: str) -> None:
    emit("finding", warning("profile", message, remedy))
