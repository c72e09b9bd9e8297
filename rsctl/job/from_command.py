"""Makes the text of a job file from a command line, such as torchrun's, that starts a script."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import dropwhile
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rsctl.findings import ExitCode, Finding, RsctlError, error, warning
from rsctl.job.from_launchers import Launched, accelerate, deepspeed
from rsctl.job.job import JOB_NAME
from rsctl.job.source_roots import find_module

_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*")
_TORCHRUN = ("torch.distributed.run", "torch.distributed.launch")
_FLAGS = {"standalone", "no-python", "run-path", "use-env"}
"""torchrun's options without a value, https://docs.pytorch.org/docs/stable/elastic/run.html."""
_ARGUMENT = r"[A-Za-z][A-Za-z0-9_.-]*"
_BASE = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"


class ScriptCommand(NamedTuple):
    """The program that a command line starts: `script` or `module`, its arguments, nodes and ranks
    per node.

    `env` are variables that the launcher would set, `remarks` lines for the job file's head.
    """

    kind: str
    name: str
    arguments: list[str]
    nodes: int
    processes: int | str
    env: Mapping[str, str] = {}
    remarks: tuple[str, ...] = ()


def read_command(arguments: Sequence[str]) -> ScriptCommand:
    """The parts of `torchrun …`, `accelerate launch …`, `deepspeed …`, `python …` or
    `SCRIPT.py …`. Raises RsctlError for others.
    """
    words = list(arguments)
    launched = _launched(words)
    command = _of_launcher(launched) if launched else _of_torchrun(_without_python(words))
    if command is None or (command.kind == "script" and not command.name.endswith(".py")):
        raise _unknown(arguments)
    return command


def _of_launcher(launched: Launched) -> ScriptCommand:
    return ScriptCommand(
        "module" if launched.is_module else "script",
        launched.words[0],
        launched.words[1:],
        launched.nodes,
        launched.processes or "auto",
        launched.env,
        launched.remarks,
    )


def _without_python(words: list[str]) -> list[str]:
    """`torchrun …`, `-m MODULE …` or `SCRIPT.py …`, for the same behind a Python."""
    if not _PYTHON.fullmatch(words[0]):
        return words
    rest = list(dropwhile(lambda word: word in ("-u", "-O", "-B"), words[1:]))
    is_torchrun = len(rest) > 1 and rest[0] == "-m" and rest[1] in _TORCHRUN
    return ["torchrun", *rest[2:]] if is_torchrun else rest


def _of_torchrun(words: list[str]) -> ScriptCommand | None:
    """The script or module that torchrun or Python starts; None if nothing is named."""
    options: dict[str, str] = {}
    if words and Path(words[0]).name == "torchrun":
        options, words = _torchrun_options(words[1:])
    is_module = words[:1] == ["-m"]
    words = words[1:] if is_module else words
    if not words:
        return None
    return ScriptCommand(
        "module" if is_module or "module" in options else "script",
        words[0],
        words[1:],
        _number(options.get("nnodes", "1").rpartition(":")[2]) or 1,  # of MIN:MAX the most
        _number(options.get("nproc-per-node", "1")) or "auto",
    )


def _number(text: str) -> int:
    """The value of digits; 0 for other text, such as `gpu`."""
    return int(text) if text.isdigit() else 0


def _launched(words: list[str]) -> Launched | None:
    """The program that `accelerate launch` or `deepspeed` starts; None for another command line."""
    if _PYTHON.fullmatch(words[0]) and words[1:3] == ["-m", "accelerate.commands.launch"]:
        return accelerate(words[3:])
    name = Path(words[0]).name
    if name == "accelerate" and words[1:2] == ["launch"]:
        return accelerate(words[2:])
    return deepspeed(words[1:]) if name == "deepspeed" else None


def _torchrun_options(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """torchrun's own options by name, and what follows them.

    Those of the rendezvous are read and forgotten: rsctl sets it up on each target.
    """
    options: dict[str, str] = {}
    while arguments and arguments[0].startswith("-") and arguments[0] != "-m":
        name, separator, value = arguments[0].lstrip("-").partition("=")
        name, arguments = name.replace("_", "-"), arguments[1:]
        if not separator and name not in _FLAGS and name != "module":
            value, arguments = (arguments[0], arguments[1:]) if arguments else ("", [])
        options[name] = value
    return options, arguments


def in_folder(command: ScriptCommand, folder: Path) -> ScriptCommand:
    """The command with its script's path relative to the folder, which must have the script.

    Raises RsctlError if it has not.
    """
    if command.kind != "script":
        return command
    given, remedy = folder / command.name, "correct its path, or change to the folder that has it"
    if not given.is_file():
        raise _error(f"there is no script {command.name} in {folder.resolve()}", remedy)
    name = os.path.relpath(given.resolve(), folder.resolve())
    if name.startswith(".."):
        name = os.path.relpath(given, folder)  # a link within the folder to a file elsewhere
    if name.startswith(".."):
        raise _error(f"script {command.name} is not inside of {folder.resolve()}", remedy)
    return command._replace(name=name)


def missing_module(command: ScriptCommand, folder: Path) -> Finding | None:
    """A warning if neither a folder nor this Python has the command's module."""
    top = command.name.partition(".")[0]
    if command.kind != "module" or find_module(folder, top) or find_spec(top):
        return None
    message = f"neither {folder.resolve()} nor this Python has a module {top!r}"
    return warning("command", message, "correct its name, or install it with image.python")


def job_text(command: ScriptCommand, folder: Path) -> str:
    """A job file for a command that is started in a folder, named after it."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")[:40]
    has_requirements = (folder / "requirements.txt").is_file()
    lines = [
        *(f"# {remark}" for remark in command.remarks),
        f"name: {name if re.fullmatch(JOB_NAME, name) else 'job'}",
        "target: process                 # or compose, vertex, sagemaker; --target overrides it",
        "",
        "image:                          # `process` uses your Python environment instead",
        f"  base: {_BASE}",
        "  python: requirements.txt" if has_requirements else "  # python: requirements.txt",
        "  source: .                     # this folder becomes /app in the image",
        "",
        "run:",
        f"  {command.kind}: {_yaml(command.name)}",
        *_argument_lines(command.arguments),
        *(["  env:"] if command.env else []),
        *(f"    {name}: {_yaml(value)}" for name, value in command.env.items()),
        "",
        "workers:",
        f"  count: {command.nodes:<22} # nodes",
        f"  processes: {command.processes:<18} # ranks on each; auto: one per accelerator, or 1",
        "  # accelerator: l4:1           # GPUs on each node; absent: CPU",
        "",
        "# metrics:                      # numbers to read from the log",
        "#   loss: {regex: 'loss=([0-9.eE+-]+)', goal: min}",
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _argument_lines(arguments: list[str]) -> list[str]:
    """`run.args` as a mapping if that gives exactly the same arguments, otherwise as a list."""
    if not arguments:
        return []
    mapping = _as_mapping(arguments)
    if mapping is None:
        return ["  args:", *(f"    - {_yaml(argument)}" for argument in arguments)]
    return ["  args:", *(f"    {name}: {_yaml(value)}" for name, value in mapping.items())]


def _as_mapping(arguments: list[str]) -> dict[str, Any] | None:
    """`--epochs 3 --flag` as `{epochs: 3, flag: true}`; None for arguments that it cannot say."""
    found: dict[str, Any] = {}
    for argument in arguments:
        name = argument.removeprefix("--")
        if argument.startswith("--") and re.fullmatch(_ARGUMENT, name) and name not in found:
            found[name] = True
        elif (
            found
            and not argument.startswith("-")
            and found[(last := next(reversed(found)))] is True
        ):
            found[last] = (
                int(argument) if re.fullmatch(r"0|[1-9][0-9]{0,8}", argument) else argument
            )
        else:
            return None
    return found


def _yaml(value: Any) -> str:
    """A scalar on one line, quoted where YAML 1.1 or 1.2 would read another type from it."""
    if isinstance(value, str) and re.fullmatch(r"[\d.+-].*|.*\$\{.*", value):
        return "'" + value.replace("'", "''").replace("${", "$${") + "'"
    text: str = yaml.safe_dump(value, width=10**9, allow_unicode=True)
    return text.removesuffix("...\n").strip()


def _unknown(arguments: Sequence[str]) -> RsctlError:
    message = f"{' '.join(arguments[:6])!r} does not start a script in a way that rsctl supports"
    remedy = "give SCRIPT.py with its arguments, alone or after python, torchrun …, "
    remedy += "accelerate launch … or deepspeed …"
    return _error(message, remedy)


def _error(message: str, remedy: str) -> RsctlError:
    return RsctlError(ExitCode.USAGE, error("command", message, remedy))
