"""Checks that the commands, options, keys and tables that the documentation names exist.

    python tools/reference/claims.py            checks all pages; exit code 1 if it finds anything
    python tools/reference/claims.py FILE...    checks only these files

It reads inline code, the commands of console blocks, and `table=` in Python blocks.
Each line of output is FILE:LINE, the code, and what does not exist.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from separate_commands import separate_commands

from rsctl.cli.app import COMMANDS, make_program
from rsctl.job.gate_checks import OF_THE_RUN
from rsctl.job.installed_targets import type_of_key
from rsctl.job.job import Job
from rsctl.job.yaml_tree import is_key_path, split_path
from rsctl.results.export.tables import TABLES
from rsctl.target_info import target_names

ROOT = Path(__file__).parents[2]
CHECKED = (
    *("README.md", "AGENTS.md", "skills/**/*.md", "CONTRIBUTING.md", "SECURITY.md"),
    "docs/**/*.md",
)

OTHER_PROGRAMS = {
    "--array": "sbatch",
    "--auto-resume": "srun on SageMaker HyperPod",
    "--comment": "sbatch",
    "--constraint": "sbatch",
    "--cpu-bind": "srun",
    "--eos-token": "an argument of a script",
    "--epochs": "an argument of a script",
    "--exclude": "sbatch",
    "--flag": "an argument of a script",
    "--fp16": "an argument of a script",
    "--gpus-per-node": "sbatch",
    "--gres": "sbatch",
    "--lr": "an argument of a script",
    "--nice": "sbatch",
    "--no-requeue": "sbatch",
    "--requeue": "sbatch",
    "--task": "a module of benchmarks",
}
"""Options that a page names without their program."""
NOT_KEYS = {
    **{f"run.{name}": "a metric that rsctl measures of a run" for name in OF_THE_RUN},
    "model.tar.gz": "a file of SageMaker",
    "run.record": "an attribute in Python",
    "workers.cuont": "a mistake that `rsctl validate` shows",
}
"""Names that look like keys of the job file."""

_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_FENCE = re.compile(r"^ *```(\w*)")
_OPTION = re.compile(r"--?[a-z]")
_ENDS = {"|", "||", "&&", ";", ">", ">>", "<", "--", "-->", "…", "..."}
_TABLE_ARGUMENT = re.compile(r"\btable=\"(\w+)\"")


def main(names: list[str]) -> int:
    """Print all hits; 1 if there are any."""
    paths = [Path(name).resolve() for name in names] or [
        path for pattern in CHECKED for path in sorted(ROOT.glob(pattern))
    ]
    hits = [hit for path in paths for hit in check(path)]
    print(*hits, sep="\n", end="\n" if hits else "")
    return 1 if hits else 0


def check(path: Path) -> Iterator[str]:
    """The hits in a page, in the order of its lines."""
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    for line, code, problems in _claims(path.read_text().splitlines()):
        for problem in problems:
            yield f"{name}:{line}: {code!r}: {problem}"


def _claims(lines: list[str]) -> Iterator[tuple[int, str, Iterable[str]]]:
    """Each piece of code with its line and what does not exist of it."""
    language, is_table_of_tables, start = "", False, ""
    for number, line in enumerate(lines, start=1):
        if found := _FENCE.match(line):
            language = "" if language else found[1] or "text"
        elif language == "console":
            start += line.strip()
            if start.endswith("\\"):
                start = start[:-1]
                continue
            if start.startswith("$ "):
                yield number, start, _of_command(start)
            start = ""
        elif language == "python":
            yield number, line.strip(), _of_tables(_TABLE_ARGUMENT.findall(line))
        elif not language:
            is_table_of_tables = line.startswith("| table |") or (
                is_table_of_tables and line.startswith("|")
            )
            codes = [code.replace("\\|", "|") for code in _INLINE.findall(line)]
            if is_table_of_tables and line.startswith("| `"):
                yield number, codes[0], _of_tables(codes[:1])
            for code in codes:
                yield number, code, [*_of_command(code), *_of_key(code)]


def _of_command(code: str) -> Iterator[str]:
    """What a command line names that does not exist; nothing if it is not one of rsctl."""
    try:
        words = shlex.split(code)
    except ValueError:
        words = code.split()
    if "rsctl" in words:
        words = words[words.index("rsctl") + 1 :]
        command, context = _root()
    elif len(words) > 1 and words[0] in COMMANDS and words[1].startswith("-"):
        command, context = _root()
    elif words and words[0].startswith("--") and _OPTION.match(words[0]):
        option = words[0].partition("=")[0]
        if option not in _all_options() and option not in OTHER_PROGRAMS:
            yield f"no command has the option {option}"
        yield from _of_values(words)
        return
    else:
        return
    yield from _of_values(words)
    for word in (word.strip("[]") for word in words):
        if word in _ENDS:
            break
        if _OPTION.match(word):
            option = word.partition("=")[0]
            if option not in _options(command, context):
                yield f"{context.command_path} does not have the option {option}"
        elif hasattr(command, "list_commands") and not word.isupper():
            inner = command.get_command(context, word)
            if inner is None:
                yield f"{context.command_path} does not have the command {word}"
                break
            command, context = inner, _context(inner, word, context)
        elif context.parent and (other := separate_commands(context.info_name).get(word)):
            command, context = other, _context(other, f"{context.info_name} {word}", context.parent)
        elif context.info_name == "init" and word == "torchrun":
            break  # the launcher's own command line follows


def _of_values(words: list[str]) -> Iterator[str]:
    """The keys of --set and the tables of --table."""
    for option, value in pairwise(words):
        key = value.partition("=")[0]
        if option == "--set" and not key.isupper():
            yield from _of_path(key.removeprefix("matrix."))
        if option == "--table":
            yield from _of_tables([value])


def _of_key(code: str) -> Iterator[str]:
    """A key path below a top-level key of the job file that does not exist."""
    key = re.split(r"=|: ", code, maxsplit=1)[0]
    if "." in key and is_key_path(key) and split_path(key)[0] in Job.__struct_fields__:
        yield from _of_path(key)


def _of_path(key: str) -> Iterator[str]:
    if key in NOT_KEYS or "…" in key:
        return
    targets = target_names() if "targets.NAME" in key else ("",)
    paths = [key.replace("targets.NAME", f"targets.{target}") for target in targets]
    if not any(is_key_path(path) and type_of_key(split_path(path)) for path in paths):
        yield f"the job file does not have the key {key}"


def _of_tables(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name not in TABLES and not name.isupper():
            yield f"rsctl export does not have the table {name}; it has {', '.join(TABLES)}"


@cache
def _root() -> tuple[Any, Any]:
    program = make_program()
    return program, _context(program, "rsctl", None)


def _context(command: Any, name: str, parent: Any) -> Any:
    names = ["--help", "-h"]
    return typer.Context(command, info_name=name, parent=parent, help_option_names=names)


def _options(command: Any, context: Any) -> set[str]:
    params = command.get_params(context)
    return {option for param in params for option in (*param.opts, *param.secondary_opts)}


@cache
def _all_options() -> frozenset[str]:
    """The options of all commands and their subcommands."""

    def collect(command: Any, context: Any) -> Iterator[str]:
        yield from _options(command, context)
        for name in getattr(command, "list_commands", lambda _: [])(context):
            inner = command.get_command(context, name)
            yield from collect(inner, _context(inner, name, context))
        for name, other in separate_commands(context.info_name).items():
            yield from collect(other, _context(other, name, context))

    return frozenset(collect(*_root()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
