"""`rsctl emulate CLOUD`: a cloud on loopback, for rsctl and the vendor's own clients."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rsctl.cli import options
from rsctl.cli.rehearse import BEHAVIOURS, parse_behaviour
from rsctl.cli.show import print_json, say
from rsctl.findings import ExitCode, RsctlError, error

if TYPE_CHECKING:
    from rsctl.emulators.clouds import CloudEmulator
    from rsctl.emulators.faults import Fault
    from rsctl.emulators.nodes import Runner

_CLOUDS = ("vertex", "sagemaker")
_FAULT_FIELDS = ("times", "path", "delay", "status", "code", "message", "cut")


@click.command("emulate", help="Play a cloud on this machine, for its own clients too.")
@click.argument("cloud", metavar="CLOUD", type=click.Choice(_CLOUDS))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default="a free one",
    help="Where it answers, on loopback only.",
)
@options.runner_option("--runner", "What runs the nodes of jobs.")
@click.option(
    "--source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="With processes: the folder that stands for /app in every image.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where its buckets are, as gs/BUCKET or s3/BUCKET. Default: one that goes with it.",
)
@click.option(
    "--pace",
    type=click.FloatRange(0),
    default=0.05,
    show_default=True,
    help="A factor on waits such as for machines; 1 is about what a cloud takes.",
)
@click.option(
    "--behaviour",
    metavar="NAME=VALUE",
    multiple=True,
    help="How the cloud behaves, such as stockouts=2; docs/clouds.md has all. Repeatable.",
)
@click.option(
    "--fault",
    "faults",
    metavar="CALL:NAME=VALUE,…",
    multiple=True,
    help="What befalls calls: logging.entries.list:times=3,status=503,code=UNAVAILABLE. "
    "Also delay (seconds), path (a pattern), message, cut=request, cut=answer. Repeatable.",
)
@options.output_option
@options.talk_options
def command(
    cloud: str,
    port: int,
    runner: str,
    source: Path,
    folder: Path | None,
    pace: float,
    behaviour: tuple[str, ...],
    faults: tuple[str, ...],
    output: str,
) -> int:
    """Serve until Ctrl-C, and exit with 0 then."""
    from rsctl.emulators.nodes import ANY_IMAGE, Program, make_runner
    from rsctl.emulators.scratch import ScratchFolder

    wanted = {**parse_behaviour(behaviour), "pace": pace}
    to_come = [parse_fault(text) for text in faults]
    nodes = make_runner(runner, {ANY_IMAGE: Program(source.absolute())})
    try:
        with closing(ScratchFolder()) as own:
            place = (folder or own.path).absolute()
            place.mkdir(parents=True, exist_ok=True)
            emulator = _make(cloud, place, nodes, wanted)
            for fault in to_come:
                emulator.faults.add(fault)
            _listen(emulator, port)
            with emulator:
                _serve(cloud, emulator, nodes.kind, place, pace, output)
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
    place = {key: getattr(emulator, key) for key in ("project", "region") if hasattr(emulator, key)}
    if output == "json":
        shown = {
            "cloud": cloud,
            "url": emulator.url,
            "runner": kind,
            "folder": str(folder),
            **place,
        }
        print_json({**shown, "environment": environment})
    else:
        for name, value in environment.items():
            click.echo(f"export {name}={shlex.quote(value)}")
    sys.stdout.flush()
    say(f"{NOTICE}: {cloud} at {emulator.url}, nodes by {kind}, buckets in {folder}")
    say(
        f"It is {' and '.join(f'{key} {name}' for key, name in place.items())}, and knows no other."
    )
    say("Jobs run as you on this machine. Ctrl-C ends it, with all that runs in it.")
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
