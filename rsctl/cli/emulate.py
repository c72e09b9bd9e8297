"""`rsctl emulate CLOUD`: a cloud on loopback, for rsctl and the vendor's own clients."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.rehearse import BEHAVIOURS, parse_behaviour
from rsctl.cli.show import print_json, print_message
from rsctl.findings import ExitCode, RsctlError, error

if TYPE_CHECKING:
    from rsctl.emulators.clouds import CloudEmulator
    from rsctl.emulators.faults import Fault
    from rsctl.emulators.nodes import Runner

_FAULT_FIELDS = ("times", "path", "delay", "status", "code", "message", "cut")


@make_command("emulate")
@options.errors_as_json
def command(
    cloud: Annotated[
        Literal["vertex", "sagemaker"], typer.Argument(metavar="CLOUD", help="vertex or sagemaker.")
    ],
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65535,
            show_default="a free one",
            help="Where it answers, on loopback only.",
        ),
    ] = 0,
    runner: Annotated[
        options.Runner,
        typer.Option(
            "--runner", help="What runs the nodes of jobs. auto: docker if an engine answers."
        ),
    ] = "auto",
    source: Annotated[
        Path,
        typer.Option(
            "--source",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="With processes: the folder that stands for /app in every image.",
        ),
    ] = Path(),
    folder: Annotated[
        Optional[Path],
        typer.Option(
            "--folder",
            metavar="DIR",
            file_okay=False,
            help="Where its buckets are, as gs/BUCKET or s3/BUCKET. Default: a temporary one.",
        ),
    ] = None,
    pace: Annotated[
        float,
        typer.Option(
            "--pace",
            metavar="X",
            min=0,
            help="A factor on waits such as for machines; 1 is about what a cloud takes.",
        ),
    ] = 0.05,
    behaviour: Annotated[
        list[str],
        typer.Option(
            "--behaviour",
            metavar="NAME=VALUE",
            help="How the cloud behaves, such as stockouts=2; docs/clouds.md has all. Repeatable.",
        ),
    ] = [],
    faults: Annotated[
        list[str],
        typer.Option(
            "--fault",
            metavar="CALL:NAME=VALUE,…",
            help="What befalls calls: logging.entries.list:times=3,status=503,code=UNAVAILABLE. "
            "Also delay (seconds), path (a pattern), message, cut=request, cut=answer. Repeatable.",
        ),
    ] = [],
    output: options.Output = "text",
) -> int:
    """Emulate a cloud on this machine, for its own clients too.

    It serves until Ctrl-C, and exits with 0 then.
    """
    from rsctl.emulators.nodes import ANY_IMAGE, Program
    from rsctl.emulators.nodes.runners import make_runner
    from rsctl.emulators.scratch import ScratchFolder

    wanted = {**parse_behaviour(behaviour), "pace": pace}
    to_come = [parse_fault(text) for text in faults]
    nodes = make_runner(runner, {ANY_IMAGE: Program(source.absolute())})
    try:
        with closing(ScratchFolder()) as scratch:
            root = (folder or scratch.path).absolute()
            root.mkdir(parents=True, exist_ok=True)
            emulator = _make(cloud, root, nodes, wanted)
            for fault in to_come:
                emulator.faults.add(fault)
            _listen(emulator, port)
            with emulator:
                _serve(cloud, emulator, nodes.kind, root, pace, output)
    finally:
        nodes.close()
    return int(ExitCode.SUCCEEDED)


def _make(cloud: str, folder: Path, nodes: Runner, behaviour: dict[str, object]) -> CloudEmulator:
    from rsctl.emulators.clouds import make_emulator

    try:
        return make_emulator(cloud, folder, nodes, {}, behaviour)
    except ValueError as problem:
        finding = error("behaviour", f"--behaviour: {problem}", BEHAVIOURS)
        raise RsctlError(ExitCode.USAGE, finding) from None


def _listen(emulator: CloudEmulator, port: int) -> None:
    if not port:
        return
    try:
        emulator.listen(port)
    except OSError as problem:
        message = f"cannot answer at port {port}: {problem.strerror}"
        finding = error("port", message, "take another one, or leave --port out")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None


def _serve(
    cloud: str, emulator: CloudEmulator, kind: str, folder: Path, pace: float, output: str
) -> None:
    from rsctl.emulators import NOTICE
    from rsctl.emulators.clouds import client_environment

    interrupted = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupted.set())
    environment = client_environment(emulator.environment(), pace)
    names = {key: getattr(emulator, key) for key in ("project", "region") if hasattr(emulator, key)}
    if output == "json":
        shown = {
            "cloud": cloud,
            "url": emulator.url,
            "runner": kind,
            "folder": str(folder),
            **names,
        }
        print_json({**shown, "environment": environment})
    else:
        for name, value in environment.items():
            typer.echo(f"export {name}={shlex.quote(value)}")
    sys.stdout.flush()
    print_message(f"{NOTICE}: {cloud} at {emulator.url}, nodes by {kind}, buckets in {folder}")
    print_message(
        f"It is {' and '.join(f'{key} {name}' for key, name in names.items())}, and knows no other."
    )
    print_message("Jobs run as you on this machine. Ctrl-C ends it, with all that runs in it.")
    interrupted.wait()


def parse_fault(text: str) -> Fault:
    """`CALL:times=3,status=503` as a fault. Raises RsctlError."""
    import msgspec

    from rsctl.emulators.faults import Fault

    call, _, rest = text.partition(":")
    fields = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    unknown = [name for name in fields if name not in _FAULT_FIELDS]
    try:
        if unknown:
            raise ValueError(f"no field {unknown[0]!r}; there are {', '.join(_FAULT_FIELDS)}")
        return msgspec.convert({**fields, "route": call}, Fault, strict=False)
    except ValueError as problem:
        message = f"--fault {text!r}: {problem}"
        raise RsctlError(ExitCode.USAGE, error("fault", message, "see --help")) from None
