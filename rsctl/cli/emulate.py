"""`rsctl emulate CLOUD`: a cloud's API on loopback, for rsctl and the vendor's clients."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Optional

import msgspec
import typer

from rsctl.api import EmulatedCloud, Fault, emulate, emulated_clouds
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.interrupts import Interrupts
from rsctl.cli.show import print_json, print_message
from rsctl.findings import ExitCode, RsctlError, error

_FAULT_FIELDS = ("times", "path", "delay", "status", "code", "message", "cut")
_POLL_SECONDS = 0.1


def _parse_cloud(name: str) -> str:
    return options.parse_choice(name, emulated_clouds())


def _complete_clouds(incomplete: str) -> list[str]:
    return [name for name in emulated_clouds() if name.startswith(incomplete)]


@make_command("emulate")
def command(
    cloud: Annotated[
        str,
        typer.Argument(
            metavar="CLOUD",
            parser=_parse_cloud,
            autocompletion=_complete_clouds,
            help="vertex or sagemaker.",
        ),
    ],
    port: options.Port = 0,
    runner: Annotated[
        options.Runner,
        typer.Option(
            "--runner",
            help="The runner of nodes. auto: docker if an engine answers, otherwise process.",
        ),
    ] = "auto",
    source: Annotated[
        Path,
        typer.Option(
            "--source",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="With processes: the folder that represents /app in every image.",
        ),
    ] = Path(),
    folder: Annotated[
        Optional[Path],
        typer.Option(
            "--folder",
            metavar="DIR",
            file_okay=False,
            help="The folder of its buckets, as gs/BUCKET or s3/BUCKET. Default: a temporary "
            "folder.",
        ),
    ] = None,
    pace: Annotated[
        float,
        typer.Option(
            "--pace",
            metavar="X",
            min=0,
            help="A factor for waits such as for machines; 1 is about as long as in the cloud.",
        ),
    ] = 0.05,
    behaviour: Annotated[
        list[str],
        typer.Option(
            "--behaviour",
            metavar="NAME=VALUE",
            help="How the cloud behaves, such as stockouts=2; docs/reference/behaviours.md has "
            "all. Repeatable.",
        ),
    ] = [],
    faults: Annotated[
        list[str],
        typer.Option(
            "--fault",
            metavar="CALL:NAME=VALUE,…",
            help="A fault to inject: logging.entries.list:times=3,status=503,code=UNAVAILABLE. "
            "Also delay (seconds), path (a pattern), message, cut=request, cut=answer, "
            "cut=half. Repeatable.",
        ),
    ] = [],
    output: options.Output = "text",
) -> None:
    """Emulate a cloud's API on this machine.

    It serves until Ctrl-C and then exits with 0.
    """
    settings = options.parse_behaviour(behaviour)
    to_come = [parse_fault(text) for text in faults]
    emulating = emulate(
        cloud,
        port=port,
        runner=runner,
        source=source,
        folder=folder,
        pace=pace,
        behaviour=settings,
        faults=to_come,
    )
    with Interrupts().listening() as interrupts, emulating as emulated:
        interrupts.hold()
        _show(emulated, output)
        while not interrupts.count:
            time.sleep(_POLL_SECONDS)


def _show(cloud: EmulatedCloud, output: str) -> None:
    if output == "json":
        about = {"cloud": cloud.cloud, "url": cloud.url, "runner": cloud.runner}
        shown = {**about, "folder": str(cloud.folder), **cloud.options}
        print_json({**shown, "environment": cloud.environment})
    else:
        for name, value in cloud.environment.items():
            typer.echo(f"export {name}={shlex.quote(value)}")
    sys.stdout.flush()
    nodes = f"{cloud.runner} runs the nodes; buckets are in {cloud.folder}"
    print_message(f"{cloud.notice}: {cloud.cloud} at {cloud.url}, {nodes}")
    names = " and ".join(f"{key} {name}" for key, name in cloud.options.items())
    print_message(f"It accepts requests for {names} and refuses all others.")
    print_message("Jobs run on this machine as you. Ctrl-C ends the emulator and all jobs in it.")


def parse_fault(text: str) -> Fault:
    """Parse `CALL:times=3,status=503` as a fault. Raises RsctlError."""
    call, _, rest = text.partition(":")
    fields = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    unknown = [name for name in fields if name not in _FAULT_FIELDS]
    try:
        if unknown:
            raise ValueError(f"there is no field {unknown[0]!r}; use {', '.join(_FAULT_FIELDS)}")
        return msgspec.convert({**fields, "route": call}, Fault, strict=False)
    except ValueError as problem:
        message = f"--fault {text!r}: {problem}"
        raise RsctlError(ExitCode.USAGE, error("fault", message, "see --help")) from None
