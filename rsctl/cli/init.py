"""`rsctl init`: create a job file from a template, or for an existing script."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from rsctl.cli.command import Command, make_command
from rsctl.cli.show import print_message, show_findings
from rsctl.data import template_names, templates_folder
from rsctl.findings import ExitCode, RsctlError, error, note

_DEFAULT = "ddp"
_SCRIPTS = ("train.py", "main.py")
_ACTS = re.compile(
    rb"__main__|(?m:^)(?:(?:for|while|with) |(?!(?:os|sys\.path|logging|warnings|torch)\.)[\w.]+\()"
)
"""Lines at the top of a file that do more than to define and to set up."""


def _complete(incomplete: str) -> list[str]:
    return [name for name in template_names() if name.startswith(incomplete)]


class _Init(Command):
    """Reads rsctl's own options only before a command line: what is behind belongs to that."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, after a look at the first of them."""
        first = next((word for word in args if not word.startswith("-")), "")
        ctx.allow_interspersed_args = not first or first in template_names()
        rest: list[str] = super().parse_args(ctx, args)
        return rest


@make_command("init", cls=_Init, context_settings={"ignore_unknown_options": True})
def command(
    context: typer.Context,
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[TEMPLATE [DIR] | COMMAND...]",
            autocompletion=_complete,
            help="ddp (default), fsdp, single, parameter-server, allreduce, bench, "
            "nccl-tests or webdataset.",
        ),
    ] = [],
) -> None:
    """Create a job file from a template or from your own script.

    
    rsctl init TEMPLATE [DIR]       a folder with a job and its script
    rsctl init SCRIPT.py [ARGS]     a job file for a script in this folder
    rsctl init torchrun ...         the same, from your current command; also from
                                    accelerate launch, deepspeed, mpirun,
                                    horovodrun, srun, torchx run, composer, tune
                                    run, fabric run, colossalai run,
                                    llamafactory-cli train and axolotl train

    Without arguments: a job file for train.py or main.py if this folder or its package has one,
    otherwise template ddp.
    """
    if arguments and arguments[0].startswith("-"):
        context.fail(f"No such option: {arguments[0]}")
    if len(arguments) == 1 and not Path(arguments[0]).exists():
        with suppress(ValueError):  # a quotation mark is open
            arguments = shlex.split(arguments[0])
    if not arguments and not (arguments := _found_program()):
        message = "neither this folder nor a package in it has a train.py or main.py: template "
        remedy = "for your own script: rsctl init SCRIPT.py"
        show_findings([note("template", f"{message}{_DEFAULT} instead", remedy)])
        arguments = [_DEFAULT]
    if arguments[0] in template_names():
        if len(arguments) > 2:
            context.fail(
                f"a template takes one folder, but {' '.join(arguments[1:])!r} was given too"
            )
        directory = Path(arguments[-1])
        files = _template(arguments[0])
        _write(directory, files, _next(directory, files))
        return

    from rsctl.job.from_command import (
        in_folder,
        is_command,
        missing_module,
        on_this_cluster,
        read_command,
    )

    is_program = len(arguments) > 1 and shutil.which(arguments[0]) is not None
    if is_program or len(arguments) > 2 or is_command(arguments):
        from rsctl.job.command_text import job_text

        program = in_folder(read_command(arguments), Path())
        missing = missing_module(program, Path())
        next_command = "rsctl submit job.yaml"
        if program.keys.get("target") == "slurm":
            program = on_this_cluster(program, os.environ)
            folder = shlex.quote(program.keys["targets.slurm.shared"])
            next_command = f"mkdir -p {folder} && {next_command}"
        show_findings([note("command", remark) for remark in program.remarks])
        show_findings([missing] if missing else [])
        text = job_text(program, Path())
        _write(Path(), {"job.yaml": text.encode()}, next_command)
    else:
        templates = ", ".join(template_names())
        remedy = f"use one of: {templates}; or give your script, such as train.py"
        message = f"there is no template {arguments[0]!r}"
        if Path(arguments[0]).is_file():
            message = f"init reads commands and shell scripts, not files such as {arguments[0]}"
            remedy = "give the command in it that starts your script: rsctl init torchrun ..."
        elif Path(arguments[0]).is_dir():
            message = f"init reads commands and shell scripts, not folders such as {arguments[0]}"
            remedy = "change to it and run rsctl init, or give the command that starts your script"
        raise RsctlError(ExitCode.USAGE, error("template", message, remedy))


def _found_program() -> list[str]:
    """The arguments that start this folder's program: a script, or a module of its package.

    A file that seems to do something when it is started precedes one that only has functions.
    """
    found = [([name], Path(name)) for name in _SCRIPTS if Path(name).is_file()]
    if not found:
        from rsctl.job.source_roots import programs

        found = [(["python", "-m", module], file) for module, file in programs(Path())]
    for arguments, file in found:
        if file.stem == "__main__" or _ACTS.search(file.read_bytes()):
            return arguments
    return found[0][0] if found else []


def _template(name: str) -> dict[str, bytes]:
    files = (path for path in (templates_folder() / name).iterdir() if path.is_file())
    return {path.name: path.read_bytes() for path in sorted(files)}


def _next(directory: Path, files: Mapping[str, bytes]) -> str:
    """The commands to type after a template was written: all that its job needs first.

    A job for accelerators is only planned, because few machines have them.
    """
    from rsctl.job.shell_words import path_word

    job, path = files["job.yaml"], shlex.quote(path_word(f"{directory}/job.yaml"))
    steps = []
    if (package := re.search(rb"your own Python needs: pip install ([\w-]+)", job)) is not None:
        name = package[1].decode()
        steps += [] if find_spec(name) else [f"pip install {name}"]
    if "make_data.py" in files:
        steps.append(f"python {shlex.quote(path_word(f'{directory}/make_data.py'))}")
    verb = "bench run" if b"\nmatrix:" in job else "submit"
    verb = "plan" if b"\n  accelerator:" in job else verb
    steps.append(f"rsctl {verb} {path}")
    return " && ".join(steps)


def _write(directory: Path, files: Mapping[str, bytes], command: str) -> None:
    """Write files that do not exist yet, and print the commands to type next. Raises RsctlError."""
    there = [name for name in files if (directory / name).exists()]
    if there:
        message = f"{directory / there[0]} already exists"
        remedy = "give another folder" if len(files) > 1 else "move or edit it"
        raise RsctlError(ExitCode.USAGE, error("exists", message, remedy))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (directory / name).write_bytes(content)
    except OSError as problem:
        with suppress(OSError):  # none of them existed
            for name in files:
                (directory / name).unlink(missing_ok=True)
        message = f"cannot write {directory}: {problem.strerror}"
        raise RsctlError(ExitCode.USAGE, error("write", message)) from None
    for name in files:
        typer.echo(str(directory / name))
    print_message(f"next: {command}")
