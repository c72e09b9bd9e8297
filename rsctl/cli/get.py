"""`rsctl get RUN [DIR]`: download a run's results."""

from __future__ import annotations

from typing import Annotated, Any, Optional, get_args

import msgspec
import typer

from rsctl.api import ResultKind
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.fetching import fetch_and_show
from rsctl.cli.runs import find_run
from rsctl.cli.show import print_json
from rsctl.job.units import Size


def _parse_kind(name: str) -> str:
    if name not in get_args(ResultKind):
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(get_args(ResultKind))}.")
    return name


def _parse_size(text: str) -> int:
    size: int = options.parse_unit(text, Size.parse)
    return size


@make_command("get")
def command(
    run: options.RunId,
    folder: Annotated[
        Optional[str],
        typer.Argument(metavar="[DIR]", help="The folder to download to. Default: ./RUN"),
    ] = None,
    only: Annotated[
        list[str],
        typer.Option(
            "--only",
            metavar=f"<{'|'.join(get_args(ResultKind))}>",
            parser=_parse_kind,
            help="Download only these results. Repeatable. Default: all.",
        ),
    ] = [],
    include: Annotated[
        list[str],
        typer.Option(
            "--include",
            metavar="GLOB",
            help="Download only files whose name matches, or whose path below DIR if the pattern "
            "has a slash. Repeatable.",
        ),
    ] = [],
    max_unpacked: Annotated[
        Optional[int],
        typer.Option(
            "--max-unpacked",
            metavar="SIZE",
            parser=_parse_size,
            help="The size limit of one unpacked archive. Default: 100 times its size, at least "
            "10GiB.",
        ),
    ] = None,
    output: options.Output = "text",
) -> int:
    """Download a run's results: outputs, checkpoints, logs, artifacts.

    rsctl skips files that already exist and resumes interrupted downloads. It writes nothing
    outside DIR.

    Exit code: 0; 3 if the disk, the network or the environment fails; 4 if the cloud refuses.
    """
    handle = find_run(run)
    kinds: list[Any] = only
    fetched = fetch_and_show(handle, folder, kinds, include, max_unpacked)
    if output == "json":
        print_json(
            {
                "run": handle.id,
                "directory": fetched.directory,
                "files": msgspec.to_builtins(fetched.files),
                "findings": fetched.findings,
            }
        )
    return int(fetched.exit_code)
