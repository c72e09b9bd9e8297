"""Refuses a command that is a launcher of ranks itself, where it would start separate trainings.

Options by the sources of `from_torchrun`, `from_launchers` and `from_clusters`, and
https://lightning.ai/docs/fabric/stable/fundamentals/launch.html.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import NamedTuple

from rsctl.findings import Finding, RsctlError, error
from rsctl.job.job import Job, RunBlock

_CODE = "launcher"
_SHELLS = ("sh", "bash", "dash", "zsh")
_ENDS = (".py", ".sh")


class _Launcher(NamedTuple):
    """A launcher's options: those with its nodes, with this node's number, and with a place where
    the nodes agree on their numbers.
    """

    nodes: frozenset[str]
    rank: str = ""
    agreement: str = ""


_TORCHRUN = _Launcher(frozenset({"nnodes"}), "node_rank", "rdzv_endpoint")
_ACCELERATE = _Launcher(frozenset({"num_machines"}), "machine_rank")
_DEEPSPEED = _Launcher(frozenset({"num_nodes", "hostfile", "H"}), "node_rank", "hostfile")
_COMPOSER = _Launcher(frozenset({"world_size"}), "node_rank")
_FABRIC = _Launcher(frozenset({"num_nodes"}), "node_rank")
_MPIRUN = _Launcher(frozenset({"H", "host", "hosts", "hostfile", "machinefile", "f"}))
_PROGRAMS = {
    "torchrun": _TORCHRUN,
    "deepspeed": _DEEPSPEED,
    "composer": _COMPOSER,
    "horovodrun": _MPIRUN,
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "mpiexec.hydra"), _MPIRUN),
}
_SUBCOMMANDS = {
    ("accelerate", "launch"): _ACCELERATE,
    ("tune", "run"): _TORCHRUN,
    ("fabric", "run"): _FABRIC,
    ("-m", "torch.distributed.run"): _TORCHRUN,
    ("-m", "torch.distributed.launch"): _TORCHRUN,
    ("-m", "accelerate.commands.launch"): _ACCELERATE,
    ("-m", "deepspeed.launcher.runner"): _DEEPSPEED,
    ("-m", "composer.cli.launcher"): _COMPOSER,
    ("-m", "horovod.runner.launch"): _MPIRUN,
}


def check_own_launcher(job: Job) -> Iterator[Finding]:
    """An error if `run` starts a launcher of ranks on each node, or even for each rank, and the
    launchers of several nodes would not find each other.
    """
    run, nodes = job.run, job.workers.count
    words = _words(run)
    found = _find(words)
    if found is None or run.package is not None:
        return
    at, name, launcher = found
    key = "command" if run.command is not None else "module"
    options = _options(words[at:])
    ranks = job.workers.processes
    if ranks == "auto":
        ranks = job.workers.accelerator.ranks_per_node if job.workers.accelerator else 1
    problem = ""
    if run.launcher in ("torchrun", "mpi") and ranks > 1:
        problem = f"launcher {run.launcher} starts {name} once for each of {ranks} ranks on a node"
    elif nodes > 1:
        problem = _problem(job, name, launcher, options)
    if problem:
        yield error(_CODE, problem, _remedy(run, words), f"run.{key}")


def _words(run: RunBlock) -> list[str]:
    """The command line with its arguments; that of a shell in its parts."""
    words = list(run.command or (["-m", run.module] if run.module else []))
    if words and PurePath(words[0]).name in _SHELLS and len(words) > 2 and words[1].endswith("c"):
        with suppress(ValueError):
            return shlex.split(words[2], comments=True)
    if isinstance(run.args, list):
        return words + [str(each) for each in run.args]
    return words + [f"--{name}={value}" for name, value in run.args.items()]


def _find(words: Sequence[str]) -> tuple[int, str, _Launcher] | None:
    """Where the options of a launcher begin, its name and what is known of it.

    What stands behind a script is the script's.
    """
    for at, word in enumerate(words):
        if word.endswith(_ENDS):
            return None
        name = PurePath(word).name
        after = words[at + 1] if at + 1 < len(words) else ""
        if launcher := _PROGRAMS.get(name):
            return at + 1, name, launcher
        if launcher := _SUBCOMMANDS.get((name, after)):
            return at + 2, after if name == "-m" else f"{name} {after}", launcher
    return None


def _options(words: Sequence[str]) -> dict[str, str]:
    """The options before the launcher's script, with `_` in their names, and their values."""
    options: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.endswith(_ENDS):
            break
        name, separator, value = word.partition("=")
        if name.startswith("-"):
            options[name.lstrip("-").replace("-", "_")] = value if separator else after
    return options


def _problem(job: Job, name: str, launcher: _Launcher, options: dict[str, str]) -> str:
    """Why the launchers of several nodes are not one; empty if they may be."""
    nodes = f"the job has {job.workers.count} nodes"
    if launcher is _ACCELERATE and (path := options.get("config_file")):
        options = {**_accelerate_config(os.path.join(job.image.source or ".", path)), **options}
    if launcher is _TORCHRUN and any(each.startswith("PET_") for each in job.run.env):
        return ""
    given = [options[each] for each in launcher.nodes if each in options]
    if "standalone" in options or all(each in ("1", "1:1") for each in given):
        return f"{name} starts ranks on one node and {nodes}: each would train separately"
    if not launcher.rank or launcher.agreement in options or job.chief.args is not None:
        return ""
    rank = options.get(launcher.rank, "")
    if not rank or rank.isdigit():
        shown = f"--{launcher.rank} {rank}" if rank else f"no --{launcher.rank}"
        return f"{name} has {shown} and {nodes}: all would wait as node {rank or 0}"
    return ""


def _accelerate_config(path: str) -> dict[str, str]:
    """The nodes in the file of `accelerate config`; `?` for each value if it cannot be read."""
    from rsctl.job.from_launchers import read_accelerate_config

    unknown = {"num_machines": "?", "machine_rank": "?"}
    try:
        content = read_accelerate_config(path)
    except RsctlError:
        return unknown
    return {name: str(content[name]) for name in unknown if content.get(name) is not None}


def _remedy(run: RunBlock, words: Sequence[str]) -> str:
    """The keys with which rsctl starts the ranks of all nodes itself."""
    from rsctl.job.from_command import read_command

    key, value, processes = "script", "SCRIPT.py", "N"
    with suppress(RsctlError):
        command = ["python", *words] if words[0] == "-m" else words
        launched = read_command(command)
        if launched.kind in ("script", "module"):
            key, value = launched.kind, launched.words[0]
        processes = str(launched.processes or "auto")
    old = "run.command" if run.command is not None else "run.module"
    launcher = "mpi" if "mpirun" in words or run.launcher == "mpi" else "torchrun"
    return (
        f"instead of {old} set run.{key}: {value}, run.launcher: {launcher} and "
        f"workers.processes: {processes}; rsctl then starts the ranks of all nodes"
    )
