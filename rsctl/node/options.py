"""The options of `rsctl-launch`.

Each node reads them as it starts, so argparse does not: with its imports that takes 6 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

_CHOICES = {
    "launcher": ("torchrun", "mpi", "once"),
    "stop_signal": ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2"),
    "transport": ("none", "efa", "fast-socket", "reduction-server", "rsctl"),
}
_USAGE = """\
usage: rsctl-launch [options] -- COMMAND...
       rsctl-launch --check [options]
"""
_HELP = f"""\

Run this node's part of a job, or check the image.

  --launcher {{{",".join(_CHOICES["launcher"])}}}
        torchrun and mpi start the command once for each rank; once starts it once on each node
  --processes N
        ranks on each node (default: 1)
  --env NAME=VALUE
        a variable of only this node, if the platform gives all nodes the same variables
  --python
        COMMAND is a script, or -m and a module
  --fill N
        replace {{outputs}}, {{checkpoints}}, {{inputs.NAME}} in the last N arguments
  --copy NAME=PATH
        copy an input from PATH to the location in RSCTL_INPUT_NAME, once for all restarts
  --count NAME
        report the files and bytes of an input that the platform has copied
  --shards NAME
        pass each rank its part of this input's shards in RSCTL_INPUT_NAME_SHARDS
  --stop-signal {{{",".join(_CHOICES["stop_signal"])}}}
        the signal that asks the command to end (default: TERM)
  --restarts-in-place N
        how often torchrun starts the ranks of all nodes again after a failure (default: 0)
  --keep SECONDS
        how long this node stays after its command has failed (default: 0)
  --check
        run nothing: verify that this image can run its job, or report why not
  --transport {{{",".join(_CHOICES["transport"])}}}
        the gradient transport that --check verifies (default: none)
"""


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
    end = arguments.index("--") if "--" in arguments else len(arguments)
    command, given = list(arguments[end + 1 :]), dict[str, Any]()
    words = iter(arguments[:end])
    for word in words:
        option, separator, value = word.partition("=")
        name = option[2:].replace("-", "_")
        if option in ("-h", "--help"):
            sys.stdout.write(_USAGE + _HELP)
            sys.exit()
        before = given.get(name, Options._field_defaults.get(name))
        if option[:2] != "--" or before is None or (isinstance(before, bool) and separator):
            _refuse(f"unrecognized arguments: {word}")
        if isinstance(before, bool):
            given[name] = True
        else:
            given[name] = _value(name, before, value if separator else next(words, None))
    options = Options(command, **given)
    for problem in _problems(options):
        _refuse(problem)
    head = [sys.executable, "-u"] if options.python else []
    return options._replace(command=[*head, *command])


def _value(name: str, before: object, text: str | None) -> object:
    """The value of an option, of the type of the one before."""
    option, choices = f"--{name.replace('_', '-')}", _CHOICES.get(name)
    if text is None:
        _refuse(f"argument {option}: expected one argument")
    if choices is not None and text not in choices:
        _refuse(f"argument {option}: invalid choice: {text!r} (choose from {', '.join(choices)})")
    if isinstance(before, tuple):
        return (*before, text)
    try:
        return int(text) if isinstance(before, int) else text
    except ValueError:
        _refuse(f"argument {option}: invalid int value: {text!r}")


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


def _refuse(problem: str) -> NoReturn:
    sys.stderr.write(f"{_USAGE}rsctl-launch: error: {problem}\n")
    sys.exit(2)
