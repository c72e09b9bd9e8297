"""Refuses a command that is a launcher of ranks itself, where it would start separate trainings.

Options by the sources of `from_torchrun`, `from_accelerate`, `from_deepspeed` and `from_clusters`,
and https://lightning.ai/docs/fabric/stable/fundamentals/launch.html.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

from rsctl.findings import Finding, RsctlError, error, warning
from rsctl.job.from_wrappers import PYTHON, RUNNERS, SHELLS, command_behind, split_python
from rsctl.job.job import Job, RunBlock, is_shell_script
from rsctl.job.shell_text import certain_commands

_CODE = "launcher"
_ENDS = (".py", ".sh")
_LARGEST_SCRIPT = 1 << 16
_DEEPEST = 4  # shells within shells
_SPAWN = re.compile(r"(?m)^[^#\n]*\b(?:mp|multiprocessing)\.(?:spawn|start_processes)\(")
_RAY = re.compile(r"(?m)^[^#\n]*(?:\bray\.init\(|\bray start\b)")
_JOINS = re.compile(
    r"(?i:addr|rank|rsctl_|hostname|current_host|procid|nodeid)|\bray\.init\(\s*[^\s=),]+\s*[,)]"
)
"""A place of this node, or of the head: then one node starts Ray's head, and the others join it."""


class _Launcher(NamedTuple):
    """A launcher's options: those with its nodes, with this node's number, and with a place where
    the nodes agree on their numbers.
    """

    nodes: frozenset[str]
    rank: str = ""
    agreement: str = ""


class _Found(NamedTuple):
    """A command line with a launcher's `name`, whose options begin at `at`."""

    script: str
    words: list[str]
    is_here: bool
    at: int
    name: str
    launcher: _Launcher


_TORCHRUN = _Launcher(frozenset({"nnodes"}), "node_rank", "rdzv_endpoint")
_ACCELERATE = _Launcher(frozenset({"num_machines"}), "machine_rank")
_DEEPSPEED = _Launcher(frozenset({"num_nodes", "hostfile"}), "node_rank", "hostfile")
_COMPOSER = _Launcher(frozenset({"world_size"}), "node_rank")
_FABRIC = _Launcher(frozenset({"num_nodes"}), "node_rank")
_COLOSSALAI = _Launcher(frozenset({"H", "host", "hostfile"}))
_AXOLOTL = _Launcher(frozenset({"nnodes", "num_machines"}), "node_rank", "rdzv_endpoint")
_MPIRUN = _Launcher(frozenset({"H", "host", "hosts", "hostfile", "machinefile", "f"}))
_LAUNCHERS = {
    ("torchrun",): _TORCHRUN,
    ("accelerate-launch",): _ACCELERATE,
    ("deepspeed",): _DEEPSPEED,
    ("composer",): _COMPOSER,
    ("horovodrun",): _MPIRUN,
    ("mpirun",): _MPIRUN,
    ("mpiexec",): _MPIRUN,
    ("orterun",): _MPIRUN,
    ("mpiexec.hydra",): _MPIRUN,
    ("accelerate", "launch"): _ACCELERATE,
    ("tune", "run"): _TORCHRUN,
    ("fabric", "run"): _FABRIC,
    ("colossalai", "run"): _COLOSSALAI,
    ("axolotl", "train"): _AXOLOTL,
    ("-m", "torch.distributed.run"): _TORCHRUN,
    ("-m", "torch.distributed.launch"): _TORCHRUN,
    ("-m", "accelerate.commands.launch"): _ACCELERATE,
    ("-m", "deepspeed.launcher.runner"): _DEEPSPEED,
    ("-m", "composer.cli.launcher"): _COMPOSER,
    ("-m", "horovod.runner.launch"): _MPIRUN,
}
"""By the first words of a command, or of what Python starts."""

_OBSERVERS = frozenset(
    [
        *("nsys", "ncu", "strace", "ltrace", "gdb", "valgrind", "py-spy", "scalene", "viztracer"),
        *("memray", "tini", "dumb-init", "xvfb-run", "unbuffer", "chrt", "catchsegv", "uvx"),
        *("neuron_parallel_compile", "perf", "nvprof", "rocprofv3", "gosu", "dotenv", "doppler"),
        *("apptainer", "singularity"),
    ]
)
"""Programs that start the command behind their options, which rsctl does not know."""


def check_own_launcher(job: Job) -> Iterator[Finding]:
    """An error if `run` starts a launcher of ranks on each node, or even for each rank, and the
    launchers of several nodes would not find each other.

    A shell that also starts a launcher without a problem passes: the others may be in a branch that
    the job does not reach.
    """
    run = job.run
    if run.package is not None:
        return
    yield from _check_spawn(job)
    yield from _check_ray(job)
    found = list(_launchers(job, _words(run)))
    problems = [_problem(job, each) for each in found]
    if problems and all(problems):
        key = "command" if run.command else "module" if run.module else "script"
        remedy = _remedy(run, key, found[0].words if found[0].is_here else [])
        yield error(_CODE, problems[0], remedy, f"run.{key}")


def _check_spawn(job: Job) -> Iterator[Finding]:
    """A warning for a script that starts ranks itself in a job of several ranks.

    torchrun alone starts the store of PyTorch's processes, and tells each rank so.
    """
    run, is_alone = job.run, job.workers.count * job.workers.ranks == 1
    if run.script is None or run.launcher != "torchrun" or is_alone:
        return
    text = _script_text(job.image.source or ".", run.script) or ""
    if _SPAWN.search(text) and "LOCAL_RANK" not in text:
        message = f"{run.script} starts ranks itself, and launcher torchrun starts it on each rank"
        message += ": all would wait for each other"
        remedy = "set run.launcher: once; a script on several nodes takes its place from NODE_RANK,"
        remedy += " NNODES, MASTER_ADDR and MASTER_PORT"
        yield warning(_CODE, message, remedy, "run.script")


def _check_ray(job: Job) -> Iterator[Finding]:
    """A warning for a command that starts Ray, in the same way on each of several nodes."""
    run = job.run
    if job.workers.count == 1 or "RAY_ADDRESS" in run.env or job.chief.args is not None:
        return
    words = [run.script] if run.script else _words(run)
    scripts = [_script_text(job.image.source or ".", w) for w in words if w.endswith(_ENDS)]
    text = "\n".join([" ".join(words), *filter(None, scripts)])
    if _RAY.search(text) and not _JOINS.search(text):
        message = f"the command starts Ray on each of {job.workers.count} nodes, and each would be "
        remedy = "set workers.count: 1, or run `ray start --head` where NODE_RANK is 0 and `ray "
        remedy += "start --block --address=$MASTER_ADDR:6379` on the other nodes"
        key = "script" if run.script else "command" if run.command else "module"
        yield warning(_CODE, f"{message}a cluster of its own", remedy, f"run.{key}")


def _problem(job: Job, found: _Found) -> str:
    """Why a launcher does not work; empty if it may."""
    ranks = job.workers.ranks
    shown = f"{found.name} in {found.script}" if found.script else found.name
    starter = job.run.launcher
    if starter in ("torchrun", "mpi") and ranks > 1:
        return f"launcher {starter} starts {shown} once for each of {ranks} ranks on a node"
    if job.workers.count == 1:
        return ""
    return _separate(job, shown, found.launcher, _options(found.words[found.at :]))


def _launchers(
    job: Job, words: list[str], script: str = "", is_here: bool = True, depth: int = 0
) -> Iterator[_Found]:
    """The launchers that a command line starts, also behind wrappers and shells.

    `script` is the shell script that has it, `is_here` whether it runs in the job's folder.
    """
    words = _behind(words)
    name, text = _shell_text(job, words) if is_here and depth < _DEEPEST else ("", None)
    if text is None:
        launcher = _find(words)
        if launcher and words[launcher[0] :][:1] not in (["--help"], ["--version"]):
            yield _Found(script, words, is_here, *launcher)
        return
    is_here = re.search(r"\bcd\s", text) is None
    for line in certain_commands(text):
        yield from _launchers(job, line, name or script, is_here, depth + 1)


def _shell_text(job: Job, words: Sequence[str]) -> tuple[str, str | None]:
    """The shell script that a command line starts, empty for `bash -c` and eval, and its text; None
    if it starts no shell or the script cannot be read.
    """
    is_shell = PurePath(words[0]).name in SHELLS if words else False
    if is_shell:
        words, is_text = _after_options(words[1:])
        if is_text:
            return "", words[0] if words else None
    elif words[:1] == ["eval"]:
        return "", " ".join(words[1:])
    elif words[:1] and words[0] in (".", "source"):
        is_shell, words = True, words[1:]
    if not words or not (is_shell or is_shell_script(words[0])):
        return "", None
    return words[0], _script_text(job.image.source or ".", words[0])


def _after_options(words: Sequence[str]) -> tuple[list[str], bool]:
    """The words after a shell's options, and whether these have `-c`: then a text follows."""
    rest, is_text = list(words), False
    while rest and len(rest[0]) > 1 and rest[0][0] in "-+":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            values = int(word in ("--rcfile", "--init-file"))
        else:
            is_text = is_text or "c" in word
            values = word.lower().count("o")  # `-o pipefail`, `-O globstar`
        rest = rest[values:]
    return rest, is_text


def _script_text(folder: str, script: str) -> str | None:
    """The text of a script in a folder; None for a file that is not regular, not UTF-8, outside of
    the folder or too large.
    """
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, script))
    with suppress(OSError, ValueError):
        status = os.stat(path)
        is_inside = os.path.commonpath([root, path]) == root
        if is_inside and stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST_SCRIPT:
            return Path(path).read_bytes()[:_LARGEST_SCRIPT].decode()
    return None


def _words(run: RunBlock) -> list[str]:
    """The command line with its arguments."""
    words = list(run.program or (["-m", run.module] if run.module else []))
    if isinstance(run.args, list):
        return words + [str(each) for each in run.args]
    return words + [f"--{name}={value}" for name, value in run.args.items()]


def _behind(words: list[str]) -> list[str]:
    """The command behind wrappers, also those whose options rsctl does not know."""
    words = command_behind(words)
    name = PurePath(words[0]).name if words else ""
    if name in _OBSERVERS or (name in RUNNERS and "run" in words):
        for at, word in enumerate(words[1:], 1):
            name = PurePath(word).name
            if name in SHELLS or PYTHON.fullmatch(name) or _find(words[at:]):
                return words[at:]
            if word.endswith(_ENDS) or word == "install":
                break
    return words


def _find(words: list[str]) -> tuple[int, str, _Launcher] | None:
    """Where the options of a launcher begin, its name and what is known of it."""
    is_python = bool(words) and PYTHON.fullmatch(PurePath(words[0]).name) is not None
    started = words[is_python:]
    if is_python or words[:1] == ["-m"]:
        _, started = split_python(started)
    for count in (1, 2):
        names = (*(PurePath(word).name for word in started[:1]), *started[1:count])
        if launcher := _LAUNCHERS.get(names):
            at = len(words) - len(started) + count
            return at, " ".join(names).removeprefix("-m "), launcher
    return None


def _options(words: Sequence[str]) -> dict[str, str]:
    """The options before the launcher's script, with `_` in their names, and their values; a
    shell's variable in place of options by its own name.
    """
    options: dict[str, str] = {}
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        if word.endswith(_ENDS):
            break
        name, separator, value = word.partition("=")
        if name.startswith("-"):
            options[name.lstrip("-").replace("-", "_")] = value if separator else after
        elif word.startswith("$") and (not before.startswith("-") or "=" in before):
            options[word] = ""
    return options


def _separate(job: Job, name: str, launcher: _Launcher, options: dict[str, str]) -> str:
    """Why the launchers of several nodes are not one; empty if they may be."""
    if any(option.startswith("$") for option in options):
        return ""
    nodes = f"the job has {job.workers.count} nodes"
    if launcher is _ACCELERATE and (path := options.get("config_file")):
        options = {**_accelerate_config(os.path.join(job.image.source or ".", path)), **options}
    if launcher is _TORCHRUN and any(each.startswith("PET_") for each in job.run.env):
        return ""
    if launcher is _DEEPSPEED and "H" in options:
        options["hostfile"] = options["H"]
    given = {name: value for name, value in options.items() if name in launcher.nodes}
    is_one_node = all(_is_one_node(job, *each) for each in given.items())
    if "standalone" in options or is_one_node:
        return f"{name} starts ranks on one node and {nodes}: each would train separately"
    if not launcher.rank or launcher.agreement in options or job.chief.args is not None:
        return ""
    rank = options.get(launcher.rank, "")
    if not rank or rank.isdigit():
        shown = f"--{launcher.rank} {rank}" if rank else f"no --{launcher.rank}"
        return f"{name} has {shown} and {nodes}: all would wait as node {rank or 0}"
    return ""


def _is_one_node(job: Job, option: str, value: str) -> bool:
    """Whether an option names one node: a number, hosts, or a file with a host in each line."""
    if option in ("H", "host", "hosts"):
        return "," not in value and "$" not in value
    if option in ("hostfile", "machinefile", "f"):
        text = _script_text(job.image.source or ".", value) or ""
        return sum(bool(line.partition("#")[0].strip()) for line in text.splitlines()) == 1
    return value in ("1", "1:1")


def _accelerate_config(path: str) -> dict[str, str]:
    """The nodes in the file of `accelerate config`; `?` for each value if it cannot be read."""
    from rsctl.job.from_accelerate import read_accelerate_config

    unknown = {"num_machines": "?", "machine_rank": "?"}
    try:
        content = read_accelerate_config(path)
    except RsctlError:
        return unknown
    return {name: str(content[name]) for name in unknown if content.get(name) is not None}


def _remedy(run: RunBlock, old: str, words: Sequence[str]) -> str:
    """The keys with which rsctl starts the ranks of all nodes itself."""
    from rsctl.job.from_command import read_command

    key, value, processes = "script", "SCRIPT.py", "N"
    with suppress(RsctlError, IndexError):
        command = ["python", *words] if words[0] == "-m" else list(words)
        launched = read_command(command)
        if launched.kind in ("script", "module"):
            key, value = launched.kind, launched.words[0]
        processes = str(launched.processes or "auto")
    launcher = "mpi" if "mpirun" in words or run.launcher == "mpi" else "torchrun"
    before = "" if old == "script" else f"instead of run.{old} "
    return (
        f"{before}set run.{key}: {value}, run.launcher: {launcher} and "
        f"workers.processes: {processes}; rsctl then starts the ranks of all nodes"
    )
