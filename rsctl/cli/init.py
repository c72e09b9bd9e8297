"""`rsctl init [TEMPLATE] [DIR]`: start a job from a template."""

from __future__ import annotations

from pathlib import Path

import click

from rsctl.cli import options
from rsctl.cli.show import say
from rsctl.data import template_names, templates_folder
from rsctl.findings import ExitCode, RsctlError, error


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in template_names() if name.startswith(incomplete)]


@click.command("init", help="Start from a template: ddp (default), fsdp, single or allreduce.")
@click.argument("template", default="ddp", shell_complete=_complete)
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@options.talk_options
def command(template: str, directory: Path | None) -> int:
    """Exit with 0, or with 2 if a file would be overwritten."""
    if template not in template_names():
        known = ", ".join(template_names())
        raise RsctlError(
            ExitCode.USAGE, error("template", f"no template {template!r}", f"use one of: {known}")
        )
    directory = directory or Path(template)
    files = sorted(path for path in (templates_folder() / template).iterdir() if path.is_file())
    there = [path.name for path in files if (directory / path.name).exists()]
    if there:
        raise RsctlError(
            ExitCode.USAGE,
            error("exists", f"{directory / there[0]} exists already", "name another folder"),
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path in files:
            (directory / path.name).write_bytes(path.read_bytes())
    except OSError as problem:
        raise RsctlError(
            ExitCode.USAGE, error("write", f"cannot write {directory}: {problem.strerror}")
        ) from None
    for path in files:
        click.echo(str(directory / path.name))
    say(f"now: rsctl submit {directory / 'job.yaml'}")
    return int(ExitCode.SUCCEEDED)
