"""Writes the text of a job file for a program that another launcher starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import yaml

from rsctl.job.job import JOB_NAME
from rsctl.job.launcher_options import Launched
from rsctl.job.secret_names import is_secret_name
from rsctl.target_info import BUILT_IN

_ARGUMENT = r"[A-Za-z][A-Za-z0-9_.-]*"
_BASE = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"
_WIDTH = 98


def job_text(command: Launched, folder: Path) -> str:
    """A job file for a command that is started in a folder, named after it."""
    keys, ranks = dict(command.keys), command.processes or "auto"
    target = keys.pop("target", "process")
    others = [name for name in [*BUILT_IN][::-1] if name != target]
    remarks = [line for remark in command.remarks for line in wrap(remark, _WIDTH)]
    lines = [
        *(f"# {line}" for line in remarks),
        f"name: {_name(keys.pop('name', folder.resolve().name))}",
        f"target: {target:<23} # or {', '.join(others)}; --target overrides it",
        "",
        *_image(keys, folder),
        "",
        *_run(command, keys.pop("run.launcher", None)),
        "",
        "workers:",
        f"  count: {command.nodes:<22} # nodes",
        f"  processes: {ranks:<18} # ranks on each; auto: one per accelerator, or 1",
        *_accelerator(keys.pop("workers.accelerator", None), command.processes or 1),
        "",
        *_blocks(keys),
        "# metrics:                      # numbers to read from the log",
        "#   loss: {regex: 'loss=([0-9.eE+-]+)', goal: min}",
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _name(text: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-")[:40].rstrip("-")
    return name if re.fullmatch(JOB_NAME, name) else "job"


def _image(keys: dict[str, Any], folder: Path) -> Iterator[str]:
    yield "image:                          # `process` uses your Python environment instead"
    uri, base = keys.pop("image.uri", None), keys.pop("image.base", _BASE)
    if uri is not None:
        yield f"  uri: {_yaml(uri)}"
        keys.pop("image.apt", None)
    else:
        yield f"  base: {_yaml(base)}"
        if (folder / "Dockerfile").is_file():
            yield "  # dockerfile: Dockerfile      # instead of base"
        is_there = (folder / "requirements.txt").is_file()
        yield "  python: requirements.txt" if is_there else "  # python: requirements.txt"
        if apt := keys.pop("image.apt", None):
            yield f"  apt: [{', '.join(apt)}]"
    yield "  source: .                     # this folder becomes /app in the image"


def _run(command: Launched, launcher: str | None) -> Iterator[str]:
    yield "run:"
    if command.kind == "command":
        yield "  command:"
        yield from (f"    - {_yaml(word)}" for word in command.words)
    else:
        yield f"  {command.kind}: {_yaml(command.words[0])}"
        yield from _argument_lines(command.words[1:])
    if launcher is not None:
        yield f"  launcher: {launcher}"
    elif not command.launcher:
        yield "  # launcher: once              # if the script starts its ranks, or needs no RANK"
    if command.env:
        yield "  env:"
    for name, value in command.env.items():
        # Without a secret there is no job; another variable of the environment may be unset.
        own = f"${{{name}}}" if is_secret_name(name) else f"${{{name}:-}}"
        yield f"    {name}: {own if value is None else _yaml(value)}"


def _accelerator(value: str | None, ranks: int) -> Iterator[str]:
    if value is not None:
        yield f"  accelerator: {_yaml(value)}"
    else:
        yield f"  # accelerator: {f'l4:{ranks}':<14} # GPUs on each node; absent: CPU"


def _blocks(keys: Mapping[str, Any]) -> Iterator[str]:
    """Keys by their paths as blocks."""
    tree: dict[str, Any] = {}
    for path, value in keys.items():
        *above, last = path.split(".")
        block = tree
        for name in above:
            block = block.setdefault(name, {})
        block[last] = value
    for name, block in tree.items():
        yield from yaml.safe_dump({name: block}, sort_keys=False, width=10**9).splitlines()
        yield ""


def _argument_lines(arguments: Sequence[str]) -> list[str]:
    """`run.args` as a mapping if that gives exactly the same arguments, otherwise as a list."""
    if not arguments:
        return []
    mapping = as_mapping(arguments)
    if mapping is None:
        return ["  args:", *(f"    - {_yaml(argument)}" for argument in arguments)]
    return ["  args:", *(f"    {name}: {_yaml(value)}" for name, value in mapping.items())]


def as_mapping(arguments: Sequence[str]) -> dict[str, Any] | None:
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
