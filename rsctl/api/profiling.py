"""Profiles of the ranks of a running local job, taken from outside by py-spy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rsctl.api.run_handle import Run
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.installation import install_command
from rsctl.node.folded_stacks import summarize_stacks
from rsctl.node.rank_profiler import sampler_command
from rsctl.runs.home import private_folder
from rsctl.runs.stream.sanitize import sanitize_line
from rsctl.targets.local.rank_processes import RankProcess, rank_processes

_LOCAL = ("process", "compose")
_START_SECONDS = 60.0


class SampledRank(NamedTuple):
    """The profile of a rank: its file, its samples, and the summary.

    `top` are the functions in which the rank was, each with its part of the samples;
    `communication` is the part of the samples within calls of torch.distributed.
    """

    rank: int
    replica: str
    file: str
    samples: int
    communication: float
    top: list[tuple[str, float]]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return self._asdict()


def profile_run(
    run: Run, ranks: Sequence[int], seconds: int, folder: Path, replicas: Sequence[str] = ()
) -> tuple[list[SampledRank], list[Finding]]:
    """Profile ranks of a running job at the same time, each into a file of a folder.

    `ranks` and `replicas` choose ranks, by default all. The files have one line for each stack with
    its number of samples. The findings are the ranks that could not be profiled. Raises RsctlError
    without py-spy, and if the job has no such rank.
    """
    tool = _tool()
    chosen = _chosen(run, ranks, replicas)
    try:
        private_folder(folder)
    except OSError as problem:
        finding = error("profile", f"cannot write {folder}: {problem.strerror}")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    started = [(each, *_start(tool, each, seconds, folder)) for each in chosen]
    profiles, findings = [], []
    for rank, file, process in started:
        output = _wait(process, seconds)
        if process.returncode == 0 and file.exists():
            profiles.append(summarize(rank, file))
        else:
            findings.append(_failure(rank, output))
    return profiles, findings


def _tool() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        finding = error("profile", "rsctl profile needs py-spy", install_command("profile"))
        raise RsctlError(ExitCode.ENVIRONMENT, finding)
    return found


def _chosen(run: Run, ranks: Sequence[int], replicas: Sequence[str]) -> list[RankProcess]:
    """The running ranks of these numbers and replicas, all by default. Raises RsctlError."""
    if run.record.target not in _LOCAL or run.is_rehearsed:
        message = f"{run.id} does not run on target process or compose, but on {run.record.target}"
        remedy = "set the key profile in the job file, which works on every target"
        raise RsctlError(ExitCode.USAGE, error("profile", message, remedy))
    if run.state.is_final:
        message = f"{run.id} has already ended: {run.state.value}"
        raise RsctlError(ExitCode.USAGE, error("profile", message))
    unknown = [name for name in replicas if name not in run.replicas]
    if unknown:
        message = f"{run.id} has no replica {unknown[0]}"
        remedy = f"its replicas are {', '.join(run.replicas)}"
        raise RsctlError(ExitCode.USAGE, error("replica", message, remedy))
    found = rank_processes(run.id)
    known = {each.rank: each for each in found if not replicas or each.replica in replicas}
    missing = [rank for rank in ranks if rank not in known]
    if missing or not known:
        where = f" on {', '.join(replicas)}" if replicas else ""
        message = f"{run.id} has no running rank {missing[0]}{where}" if missing else (
            f"no rank of {run.id} runs{where or ' yet'}"
        )  # fmt: skip
        remedy = f"its running ranks: {', '.join(map(str, known))}" if known else _why_none(run)
        raise RsctlError(ExitCode.USAGE, error("profile", message, remedy))
    return [known[rank] for rank in dict.fromkeys(ranks)] if ranks else list(known.values())


def _why_none(run: Run) -> str:
    """The remedy where no process of a rank is visible."""
    if run.record.target == "compose" and os.geteuid() != 0:
        return "run the command as root: the processes of containers belong to other users"
    return "try again once they run; with run.launcher: none rsctl knows no ranks"


def _start(
    tool: str, rank: RankProcess, seconds: int, folder: Path
) -> tuple[Path, subprocess.Popen[str]]:
    file = folder / f"rank-{rank.rank}.folded.txt"
    command = sampler_command(tool, rank.pid, str(file), with_children=False)
    return file, subprocess.Popen(
        [*command, "--duration", str(seconds)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def _wait(process: subprocess.Popen[str], seconds: int) -> str:
    try:
        return process.communicate(timeout=seconds + _START_SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def _failure(rank: RankProcess, output: str) -> Finding:
    said = output.partition("Stack backtrace:")[0]
    lines = [sanitize_line(line) for line in said.splitlines() if line.strip()]
    why = lines[-1].removeprefix("Error: ") if lines else "py-spy has ended"
    if "Failed to find python version" in said:
        why = f"process {rank.pid} is not a Python program"
    message = f"rank {rank.rank} was not profiled: {why}"
    is_denied = "permission" in output.lower()
    remedy = "run the command as root, or let this user trace: sysctl kernel.yama.ptrace_scope=0"
    return error("profile", message, remedy if is_denied else None)


def summarize(rank: RankProcess, file: Path) -> SampledRank:
    """The summary of a file of stacks. Raises OSError."""
    found = summarize_stacks(str(file))
    top = [(sanitize_line(name), part) for name, part in found.top]
    return SampledRank(rank.rank, rank.replica, str(file), found.samples, found.communication, top)
