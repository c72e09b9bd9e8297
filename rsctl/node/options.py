"""The options of `rsctl-launch`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Options(NamedTuple):
    """The values of the options, and the command."""

    command: list[str]
    launcher: str = "torchrun"
    processes: int = 1
    env: tuple[str, ...] = ()
    python: bool = False
    fill: int = 0
    copy: tuple[str, ...] = ()
    count: tuple[str, ...] = ()  # type: ignore[assignment]  # it hides a method of tuples
    shards: tuple[str, ...] = ()
    stop_signal: str = "TERM"
    restarts_in_place: int = 0
    keep: int = 0
    check: bool = False
    transport: str = ""


def parse(arguments: Sequence[str]) -> Options:
    """The options that the arguments have. Exits with 2 and a message if they are wrong."""
    # Split by hand: what argparse makes of `--` differs between versions of Python.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = _make_parser()
    given = vars(parser.parse_args(arguments[:end]))
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    options = Options([*arguments[end + 1 :]], **{**given, **lists})
    for problem in _problems(options):
        parser.error(problem)
    head = [sys.executable, "-u"] if options.python else []
    return options._replace(command=[*head, *options.command])


def _problems(options: Options) -> Iterator[str]:
    if options.check and options.command:
        yield "--check does not run a COMMAND"
    if options.transport and not options.check:
        yield "--transport requires --check; a job uses the transport of its image"
    if not options.command and not options.check:
        yield "there is nothing to run: give a COMMAND after --"
    if options.restarts_in_place and options.launcher != "torchrun":
        yield "--restarts-in-place requires --launcher torchrun"
    if not all("=" in given for given in options.copy):
        yield "--copy requires NAME=PATH"
    if options.processes < 1 or (options.launcher == "once" and options.processes > 1):
        yield f"--processes {options.processes} is not possible with {options.launcher}"


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rsctl-launch",
        usage="%(prog)s [options] -- COMMAND...\n       %(prog)s --check [options]",
        description="Run this node's part of a job, or check the image.",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,  # what is not given has the default of Options
    )
    parser.add_argument(
        "--launcher",
        choices=("torchrun", "mpi", "once"),
        help="torchrun and mpi start the command once for each rank; once starts it once on each "
        "node",
    )
    parser.add_argument("--processes", type=int, metavar="N", help="ranks on each node")
    parser.add_argument(
        "--env",
        action="append",
        metavar="NAME=VALUE",
        help="a variable of only this node, if the platform gives all nodes the same variables",
    )
    parser.add_argument(
        "--python", action="store_true", help="COMMAND is a script, or -m and a module"
    )
    parser.add_argument(
        "--fill",
        type=int,
        metavar="N",
        help="replace {outputs}, {checkpoints}, {inputs.NAME} in the last N arguments",
    )
    parser.add_argument(
        "--copy",
        action="append",
        metavar="NAME=PATH",
        help="copy an input from PATH to the location in RSCTL_INPUT_NAME, once for all restarts",
    )
    parser.add_argument(
        "--count",
        action="append",
        metavar="NAME",
        help="report the files and bytes of an input that the platform has copied",
    )
    parser.add_argument(
        "--shards",
        action="append",
        metavar="NAME",
        help="pass each rank its part of this input's shards in RSCTL_INPUT_NAME_SHARDS",
    )
    parser.add_argument(
        "--stop-signal",
        choices=("TERM", "INT", "HUP", "QUIT", "USR1", "USR2"),
        help="the signal that asks the command to end (default: TERM)",
    )
    parser.add_argument(
        "--restarts-in-place",
        type=int,
        metavar="N",
        help="how often torchrun starts the ranks of all nodes again after a failure (default: 0)",
    )
    parser.add_argument(
        "--keep",
        type=int,
        metavar="SECONDS",
        help="how long this node stays after its command has failed (default: 0)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="run nothing: verify that this image can run its job, or report why not",
    )
    parser.add_argument(
        "--transport",
        choices=("none", "efa", "fast-socket", "reduction-server", "rsctl"),
        help="the gradient transport that --check verifies (default: none)",
    )
    return parser
