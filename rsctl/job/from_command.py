"""Reads a command line, such as torchrun's, that starts a script."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import dropwhile
from pathlib import Path

from rsctl.findings import Finding, RsctlError, warning
from rsctl.job.env_checks import is_reserved
from rsctl.job.from_accelerate import accelerate
from rsctl.job.from_clusters import horovodrun, mpirun, srun
from rsctl.job.from_clusters import on_this_cluster as on_this_cluster
from rsctl.job.from_deepspeed import deepspeed
from rsctl.job.from_scripts import is_script, remedy_for
from rsctl.job.from_torchrun import colossalai, composer, fabric, torchrun, torchx, tune
from rsctl.job.from_trainers import axolotl, llama_factory
from rsctl.job.from_wrappers import ASSIGNMENT, PYTHON, is_wrapper, python, unwrapped
from rsctl.job.launcher_options import Launched, command_error, option_values
from rsctl.job.script_language import check_module_name
from rsctl.job.secret_names import is_secret_variable
from rsctl.job.shell_words import find_operator
from rsctl.job.source_roots import find_module

_LAUNCHERS: dict[str, Callable[[list[str]], Launched]] = {
    "torchrun": torchrun,
    "accelerate-launch": accelerate,
    "deepspeed": deepspeed,
    "composer": composer,
    **dict.fromkeys(
        ("mpirun", "mpiexec", "orterun", "mpiexec.hydra"), lambda words: mpirun(words, _read)
    ),
    "horovodrun": lambda words: horovodrun(words, _read),
    "srun": lambda words: srun(words, _read),
}
_SUBCOMMANDS: dict[tuple[str, str], Callable[[list[str]], Launched]] = {
    ("accelerate", "launch"): accelerate,
    ("tune", "run"): tune,
    ("fabric", "run"): fabric,
    ("lightning", "run"): lambda words: fabric(words[words[:1] == ["model"] :]),
    ("colossalai", "run"): colossalai,
    ("torchx", "run"): torchx,
    ("llamafactory-cli", "train"): llama_factory,
    ("lmf", "train"): llama_factory,
    ("axolotl", "train"): axolotl,
}
_MODULES: dict[str, Callable[[list[str]], Launched]] = {
    "torch.distributed.run": torchrun,
    "torch.distributed.launch": lambda words: torchrun(words, "torch.distributed.launch"),
    "accelerate.commands.launch": accelerate,
    "deepspeed.launcher.runner": deepspeed,
    "composer.cli.launcher": composer,
    "horovod.runner.launch": lambda words: horovodrun(words, _read),
}
_SET_BY_LAUNCHERS = ("PET_", "SLURM_", "OMPI_COMM_")
_COUNTS = {
    **dict.fromkeys(("torchrun", "torch.distributed.run"), ("PET_NNODES", "PET_NPROC_PER_NODE")),
    **dict.fromkeys(("llamafactory-cli", "lmf"), ("NNODES", "NPROC_PER_NODE")),
}
"""The variables from which a launcher reads its nodes and the ranks of each."""
_SUBMITS = {
    "submitit": re.compile(rb"(?m)^[ \t]*(?:import|from) submitit\b"),
    "SageMaker's SDK": re.compile(
        rb"(?m)^[ \t]*(?:import|from) sagemaker\.(?:pytorch|huggingface|tensorflow|mxnet|estimator|"
        rb"modules|train)\b"
    ),
    "Vertex AI's SDK": re.compile(
        rb"\baiplatform\.Custom(?:Job|(?:Container|PythonPackage)?TrainingJob)\b"
    ),
}
_NODE_NUMBERS = ("--machine-rank", "--machine_rank", "--node-rank", "--node_rank", "--rank")
_NODE_COUNTS = ("--trainer.num_nodes", "trainer.num_nodes", "--num-machines", "--num_machines")
_RANK_COUNTS = ("--trainer.devices", "trainer.devices")
_LARGEST = 1 << 20  # bytes of a script
_NAMES = (*_LAUNCHERS, *(name for name, _ in _SUBCOMMANDS))


def is_command(words: Sequence[str]) -> bool:
    """Whether words look like a command line, and not like the name of a template."""
    name = Path(words[0]).name
    is_program = name.endswith(".py") or name in _NAMES or PYTHON.fullmatch(name) is not None
    return is_program or is_wrapper(list(words)) or is_script(list(words))


def read_command(arguments: Sequence[str]) -> Launched:
    """The program that a command line starts, with all settings of its launcher.

    Raises RsctlError for a command line that a job file cannot say.
    """
    launched = _counted(_read(list(arguments)))
    program = launched.words[0]
    is_python = launched.kind != "script" or program.endswith(".py")
    if not is_python and launched.launcher and os.path.isabs(program) and shutil.which(program):
        words = [os.path.basename(program), *launched.words[1:]]  # of `torchrun $(which NAME)`
        launched, is_python = launched._replace(kind="command", words=words), True
    if not is_python or (launched.kind == "command" and not launched.launcher):
        raise _unknown(arguments)
    if launched.kind == "module":
        for finding in check_module_name(launched.words[0], "run.module"):
            raise command_error(finding.message, "give the file without -m, or a module's name")
    if operator := find_operator(launched.words):
        remark = f"{operator[0]} is an argument here: a job file starts the script without a shell"
        launched = launched.within(remarks=[remark])
    if "run.launcher" not in launched.keys:
        launched = launched.within(remarks=_argument_remarks(launched))
    return _checked_env(launched)


def _counted(launched: Launched) -> Launched:
    """The same with the numbers that its launcher reads from variables, where no option has one."""
    counts = [launched.env.get(name) or "" for name in _COUNTS.get(launched.launcher, ())]
    nodes, ranks = [int(each) if each.isdigit() else 0 for each in counts] or [0, 0]
    if launched.nodes == 1 and nodes:
        launched = launched._replace(nodes=nodes)
    is_default = launched.processes == 0 or launched.launcher.startswith("torch")
    return launched._replace(processes=ranks) if ranks and is_default else launched


def _checked_env(launched: Launched) -> Launched:
    """The same without variables that rsctl sets, and without the values of secrets."""
    env: dict[str, str | None] = {}
    remarks, ours = [], []
    for name, value in launched.env.items():
        if is_reserved(name) or name.startswith(_SET_BY_LAUNCHERS):
            ours.append(name)
        elif value and is_secret_variable(name, value):
            env[name] = None
            remarks.append(f"{name} looks like a secret: set it in the environment of rsctl submit")
        else:
            env[name] = value
    if ours:
        remarks.append(f"omitted {', '.join(ours)}: rsctl or its launcher sets them")
    if gpus := env.get("CUDA_VISIBLE_DEVICES"):
        remarks.append(f"CUDA_VISIBLE_DEVICES={gpus} has GPUs of this machine: remove it elsewhere")
    return launched._replace(env=env, remarks=(*launched.remarks, *remarks))


def _argument_remarks(launched: Launched) -> Iterator[str]:
    """Remarks on arguments that say where a script's ranks are: `--launcher slurm` of OpenMMLab,
    the nodes of Lightning, and `--machine-rank 0` of scripts that start the ranks of a node.
    """
    words = launched.words
    for value in option_values("--launcher", words):
        if value in ("slurm", "mpi"):
            yield f"--launcher {value} has the script read ranks of {value}: use --launcher pytorch"
    for name in _NODE_COUNTS:
        for value in option_values(name, words):
            if value.isdigit() and int(value) != launched.nodes:
                yield f"{name}={value} is the script's number of nodes: set workers.count"
    for name in _RANK_COUNTS if launched.processes else ():
        for value in option_values(name, words):
            if value.isdigit() and int(value) != launched.processes:
                remark = "is the script's number of ranks on a node: set workers.processes"
                yield f"{name}={value} {remark}"
    has_peers = any(word.startswith(("--world", "--dist")) for word in words)
    for name in _NODE_NUMBERS if not launched.launcher else ():
        if name == "--rank" and not has_peers:
            continue  # as of LoRA
        if any(value.isdigit() for value in option_values(name, words)):
            yield (
                f"{name} is the number of one node: set workers.count and run.launcher: once, and "
                f"instead of run.{launched.kind} a run.command: [bash, -c, ...] that passes "
                "$NODE_RANK, $NNODES, $MASTER_ADDR and $MASTER_PORT"
            )


def _read(words: list[str]) -> Launched:
    if is_script(words):
        shown = list(dropwhile(ASSIGNMENT.fullmatch, words))
        raise _unknown(shown, remedy_for(words, _NAMES))
    if is_wrapper(words):
        return unwrapped(words, _read)
    name = Path(words[0]).name
    if launcher := _LAUNCHERS.get(name):
        return launcher(words[1:])._replace(launcher=name)
    if words[1:] and (subcommand := _SUBCOMMANDS.get((name, words[1]))):
        return subcommand(words[2:])._replace(launcher=name)
    if PYTHON.fullmatch(name):
        return python(words[1:], {n: _named(n, launcher) for n, launcher in _MODULES.items()})
    if name.endswith(".py"):
        return Launched("script", words, processes=1)
    if name in _NAMES:
        raise _unknown(words)
    return Launched("command", words, processes=1)


def _named(name: str, launcher: Callable[[list[str]], Launched]) -> Callable[[list[str]], Launched]:
    return lambda words: launcher(words)._replace(launcher=name)


def in_folder(command: Launched, folder: Path) -> Launched:
    """The command with its script's path relative to the folder, which must have the script.

    Raises RsctlError if it has not.
    """
    if command.kind != "script":
        return command
    script, *arguments = command.words
    given, remedy = folder / script, "correct its path, or change to the folder that has it"
    if not given.is_file():
        raise command_error(f"there is no script {script} in {folder.resolve()}", remedy)
    name = os.path.relpath(given.resolve(), folder.resolve())
    if name.startswith(".."):
        name = os.path.relpath(given, folder)  # a link within the folder to a file elsewhere
    if name.startswith(".."):
        raise command_error(f"script {script} is not inside of {folder.resolve()}", remedy)
    text = given.read_bytes()[:_LARGEST]
    for library in (name for name, pattern in _SUBMITS.items() if pattern.search(text)):
        remark = f"{script} submits jobs itself, with {library}: give the script of those jobs"
        command = command.within(remarks=[remark])
    return command._replace(words=[name, *arguments])


def missing_module(command: Launched, folder: Path) -> Finding | None:
    """A warning if neither a folder nor this Python has the command's module."""
    top = command.words[0].partition(".")[0]
    if command.kind != "module" or find_module(folder, top) or find_spec(top):
        return None
    message = f"neither {folder.resolve()} nor this Python has a module {top!r}"
    return warning("command", message, "correct its name, or install it with image.python")


def _unknown(arguments: Sequence[str], remedy: str = "") -> RsctlError:
    """The error for a command line that starts no script."""
    message = f"{' '.join(arguments[:6])!r} does not start a script in a way that rsctl supports"
    if remedy:
        return command_error(message, remedy)
    remedy = "give SCRIPT.py with its arguments, alone or after python, torchrun, accelerate "
    remedy += "launch, deepspeed, mpirun, horovodrun, srun, torchx run, composer, tune run, fabric "
    remedy += "run, colossalai run, llamafactory-cli train or axolotl train; for another program, "
    remedy += "write a job file with run.command"
    return command_error(message, remedy)
