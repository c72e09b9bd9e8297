"""`rsctl-launch`: the first process of a node, which runs its part of a job or checks its image.

Usage: rsctl-launch [--launcher torchrun|mpi|once] [--processes N] [--env NAME=VALUE]... [--python]
                    [--fill N] [--copy NAME=PATH]... [--count NAME]...
                    [--shards NAME]... [--stop-signal NAME] [--restarts-in-place N] [--keep SECONDS]
                    -- COMMAND...
       rsctl-launch --arguments-from hyperparameters
       rsctl-launch --check [--transport NAME] [--launcher torchrun|mpi|once]

This file and what it imports at its head must parse on Python 3.7: see interpreter.py.
"""

from __future__ import annotations

import argparse
import os
import sys

from rsctl.node import interpreter
from rsctl.node.errors import ENVIRONMENT, LaunchError
from rsctl.node.structured_lines import emit


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code; errors.py has those of the launcher itself."""
    outdated = interpreter.too_old()
    if outdated is not None:
        emit("finding", outdated)
        return ENVIRONMENT
    given = sys.argv[1:] if arguments is None else arguments
    try:
        from rsctl.node import node, platforms

        platform = platforms.platform(platforms.platform_of(os.environ))
        options = _parse(platform.arguments(given, os.environ))
        os.environ.update(dict(setting.partition("=")[::2] for setting in options.env))
        if options.check:
            from rsctl.node.check import command
    except ImportError as error:
        emit("finding", interpreter.incomplete(error))
        return ENVIRONMENT
    except LaunchError as error:
        emit("finding", error.finding())
        return error.exit_code
    if options.check:
        return command.main(options.transport or "none", options.launcher)
    return node.main(options)


def _parse(arguments: list[str]) -> argparse.Namespace:
    """The options, with the command as `command`."""
    # Split by hand: what argparse makes of `--` differs between versions of Python.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    command = arguments[end + 1 :]
    parser = _make_parser()
    options = parser.parse_args(arguments[:end])
    if options.check and command:
        parser.error("--check does not run a COMMAND")
    if options.transport and not options.check:
        parser.error("--transport requires --check; a job uses the transport of its image")
    if not command and not options.check:
        parser.error("there is nothing to run: give a COMMAND after --")
    if options.restarts_in_place and options.launcher != "torchrun":
        parser.error("--restarts-in-place requires --launcher torchrun")
    if not all("=" in given for given in options.copy):
        parser.error("--copy requires NAME=PATH")
    if options.processes < 1 or (options.launcher == "once" and options.processes > 1):
        parser.error(f"--processes {options.processes} is not possible with {options.launcher}")
    options.command = [sys.executable, "-u", *command] if options.python else command
    return options


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rsctl-launch",
        usage="%(prog)s [options] -- COMMAND...\n       %(prog)s --check [options]",
        description="Run this node's part of a job, or check the image.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--launcher",
        choices=("torchrun", "mpi", "once"),
        default="torchrun",
        help="torchrun and mpi start the command once for each rank; once starts it once on each "
        "node",
    )
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="ranks on each node")
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable of only this node, if the platform gives all nodes the same variables",
    )
    parser.add_argument(
        "--python", action="store_true", help="COMMAND is a script, or -m and a module"
    )
    parser.add_argument(
        "--fill",
        type=int,
        default=0,
        metavar="N",
        help="replace {outputs}, {checkpoints}, {inputs.NAME} in the last N arguments",
    )
    parser.add_argument(
        "--copy",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="copy an input from PATH to the location in RSCTL_INPUT_NAME, once for all restarts",
    )
    parser.add_argument(
        "--count",
        action="append",
        default=[],
        metavar="NAME",
        help="report the files and bytes of an input that the platform has copied",
    )
    parser.add_argument(
        "--shards",
        action="append",
        default=[],
        metavar="NAME",
        help="pass each rank its part of this input's shards in RSCTL_INPUT_NAME_SHARDS",
    )
    parser.add_argument(
        "--stop-signal",
        choices=("TERM", "INT", "HUP", "QUIT", "USR1", "USR2"),
        default="TERM",
        help="the signal that asks the command to end (default: TERM)",
    )
    parser.add_argument(
        "--restarts-in-place",
        type=int,
        default=0,
        metavar="N",
        help="how often torchrun starts the ranks of all nodes again after a failure (default: 0)",
    )
    parser.add_argument(
        "--keep",
        type=int,
        default=0,
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


if __name__ == "__main__":
    sys.exit(main())
