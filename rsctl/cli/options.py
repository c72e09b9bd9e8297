"""Options and arguments that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from rsctl.spec.job import TARGETS

F = TypeVar("F", bound=Callable[..., Any])

_given = {"quiet": False, "no_color": False}


class _Target(click.Choice[str]):
    """A target, whose name in other tools is pointed to ours."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in TARGETS:
            from rsctl.spec.other_launchers import VALUES

            ours = VALUES.get(value.lower())
            if ours in TARGETS:
                self.fail(f"{value!r} is no target; rsctl calls it {ours}.", param, ctx)
        return super().convert(value, param, ctx)


def job_argument(function: F) -> F:
    """JOB, a job file or `-` for standard input."""
    return click.argument("job", metavar="JOB", type=click.Path())(function)


def job_options(function: F) -> F:
    """--target and --set, for commands that read a job file."""
    function = click.option(
        "--set",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        help="Override a key of the file, such as workers.count=8. Repeatable.",
    )(function)
    return click.option(
        "--target",
        "-t",
        type=_Target(TARGETS),
        help="Where it runs; default: the file's own target.",
    )(function)


def run_argument(function: F) -> F:
    """RUN, completed from the store."""
    return click.argument("run", metavar="RUN", shell_complete=_complete_runs)(function)


def limit_option(function: F) -> F:
    """--limit, for commands that list the newest of many."""
    return click.option(
        "--limit",
        "-n",
        type=click.IntRange(min=0),
        default=20,
        show_default=True,
        help="At most so many; 0: all.",
    )(function)


def runner_option(name: str, what: str) -> Callable[[F], F]:
    """How the nodes of a cloud that is played here are run; `what` is the help's first sentence."""
    return click.option(
        name,
        type=click.Choice(["auto", "docker", "process"]),
        default="auto",
        show_default=True,
        help=f"{what} auto: docker if an engine answers.",
    )


def output_option(function: F) -> F:
    """-o text|json, for a command that prints one document.

    With json its errors are a document too, `{"findings": [...]}`, beside the text on stderr.
    """
    return events_option(errors_as_json(function))


def errors_as_json(function: F) -> F:
    """With `-o json`, print what makes a command end with an error as JSON on stdout too."""

    @wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        from rsctl.findings import RsctlError

        try:
            return function(*arguments, **options)
        except RsctlError as problem:
            if options["output"] == "json":
                from rsctl.cli.show import print_json

                print_json({"findings": problem.findings})
            raise

    return cast(F, wrapped)


def events_option(function: F) -> F:
    """-o text|json, for a command that prints events and has its errors among them."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="json makes standard output machine-readable.",
    )(function)


def talk_options(function: F) -> F:
    """--quiet and --no-color, for all commands."""
    function = click.option(
        "--no-color",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_note,
        help="No colours; NO_COLOR does the same.",
    )(function)
    return click.option(
        "--quiet",
        "-q",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_note,
        help="Say nothing on standard error but errors.",
    )(function)


def in_color(stream: Any = None) -> bool:
    """Whether a stream (default: stderr) is to be coloured: a terminal, and nobody objects."""
    stream = stream or sys.stderr
    unwanted = _given["no_color"] or os.environ.get("NO_COLOR")
    return not unwanted and bool(stream.isatty())


def is_quiet() -> bool:
    """Whether --quiet was given."""
    return _given["quiet"]


def _note(_ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Kept beside the context, which has ended when the last findings are shown."""
    _given[str(param.name)] = value


def _complete_runs(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from rsctl.findings import RsctlError
    from rsctl.runs.store import Store

    try:
        names = [run.run for run in Store().runs(limit=50)]
    except RsctlError:
        return []
    return [name for name in ["@last", *names] if name.startswith(incomplete)]
