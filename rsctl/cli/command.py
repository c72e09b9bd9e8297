"""Commands that typer makes from typed functions, and groups that import a command to run it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from rsctl.cli.output import set_output, without_reader

OUTPUT = "Output"
"""The heading in `--help` for options that control the output."""

_OPTIONS = "Options"
_Function = Callable[..., "int | None"]
_NAME_WIDTH = 28  # of options and commands in `--help`; a longer one has its own line

Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Print only errors on standard error.", rich_help_panel=OUTPUT
    ),
]
NoColor = Annotated[
    bool,
    typer.Option(
        "--no-color", help="Disable colors; NO_COLOR=1 does the same.", rich_help_panel=OUTPUT
    ),
]


class Command(TyperCommand):
    """A command whose function returns the exit code, with grouped options in `--help`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Say of a missing argument what it is."""
        try:
            parsed: list[str] = super().parse_args(ctx, args)
        except typer.BadParameter as problem:
            is_choice = hasattr(getattr(problem.param, "type", None), "choices")
            if not problem.message and not is_choice:
                problem.message = getattr(problem.param, "help", "")
            raise
        return parsed

    def invoke(self, ctx: Any) -> Any:
        """Run the function and end with the exit code that it returns."""
        code = super().invoke(ctx) or 0
        try:
            with without_reader():
                sys.stdout.flush()
        except OSError as problem:
            if not code:
                raise  # a full disk is this command's error
            from rsctl.cli.errors import show_error

            show_error(problem)
        raise typer.Exit(code)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The usage `[OPTIONS] JOB`, in every version of typer."""
        return [self.options_metavar or "", *(name for name, _ in _arguments(self, ctx))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and then the options under the headings of their panels."""
        _write_section(formatter, "Arguments", _arguments(self, ctx))
        _write_options(self, ctx, formatter)


class ParentCommand(Command):
    """A command that has further commands: `rsctl gate calibrate` besides `rsctl gate BENCH`.

    The command WORD of NAME is `command` of the module `rsctl.cli.NAME_WORD`.
    """

    words: ClassVar[tuple[str, ...]]

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the arguments, those after a word as of its command."""
        if not args or args[0] not in self.words:
            return super().make_context(info_name, args, parent, **extra)
        command = _command_of(f"rsctl.cli.{self.name}_{args[0]}")
        return command.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)


class LazyGroup(TyperGroup):
    """A group that knows its commands by name and imports each when it is called.

    The command NAME is `command` of the module `rsctl.cli.NAME`, with `prefix` before its name.
    """

    panels: ClassVar[Mapping[str, Mapping[str, str]]]
    """Commands with their short help, by heading."""
    prefix: ClassVar[str] = ""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of `--help`."""
        return [name for commands in self.panels.values() for name in commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the module of a command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        return _command_of(f"rsctl.cli.{self.prefix}{cmd_name.replace('-', '_')}")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is called; for an unknown one, raise an error with a suggestion."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-") and not ctx.resilient_parsing:
            from rsctl.cli.suggestions import suggest_command

            ctx.fail(f"No such command {args[0]!r}. {suggest_command(args[0], names)}".rstrip())
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, without importing them, and then the options."""
        width = max(map(len, self.list_commands(ctx)))
        for title, commands in self.panels.items():
            _write_section(formatter, title, list(commands.items()), width)
        _write_options(self, ctx, formatter)


def _command_of(name: str) -> Any:
    """The command of a module. Its help is a docstring, which Python's -OO removes."""
    module = import_module(name)
    command: Any = get_command(module.command)
    if not command.help:
        import ast

        for part in ast.parse(inspect.getsource(module)).body:
            if isinstance(part, ast.FunctionDef) and part.name == command.callback.__name__:
                command.help = ast.get_docstring(part)
    return command


def make_command(
    name: str,
    cls: type[Command] = Command,
    *,
    json_errors: bool | Literal["events"] = True,
    **settings: Any,
) -> Callable[[_Function], typer.Typer]:
    """Decorate a typed function: its docstring is the help, its return value the exit code, where
    None is success.

    The command also has --quiet and --no-color, which the function need not handle. With `-o json`,
    an error that ends it is printed as JSON on stdout too, so that a program need not read stderr;
    `json_errors` is "events" where the command prints a stream of events, and false where it prints
    its errors itself, or no JSON. `settings` are arguments of `typer.Typer.command`.
    """

    def decorate(function: _Function) -> typer.Typer:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, cls=cls, **settings)(_with_output_options(function, json_errors))
        return app

    return decorate


def _with_output_options(function: _Function, json_errors: bool | Literal["events"]) -> _Function:
    @wraps(function)
    def wrapped(quiet: bool, no_color: bool, **values: Any) -> int | None:
        from rsctl.findings import ExitCode, RsctlError

        set_output(quiet, no_color)
        try:
            if not values.get("watch"):
                return function(**values)
            with without_reader():
                return function(**values)
            return int(ExitCode.INTERRUPTED)  # the exit code of the run is not known yet
        except RsctlError as problem:
            if json_errors and values.get("output") == "json":
                from rsctl.cli.show import print_events, print_json

                with suppress(OSError):  # standard output may be what failed
                    if json_errors == "events":
                        from rsctl.cli.error_events import finding_events

                        print_events(finding_events(problem.findings))
                    else:
                        is_line = bool(values.get("watch"))
                        print_json({"findings": problem.findings}, is_line=is_line)
            raise

    signature = inspect.signature(function, eval_str=True)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("quiet", Quiet), ("no_color", NoColor))
    ]
    parameters = [*signature.parameters.values(), *added]
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    # Typer reads the annotations several times: as objects, not as text to be evaluated again.
    wrapped.__annotations__ = {param.name: param.annotation for param in parameters}
    return wrapped


def _arguments(command: Any, ctx: Any) -> list[tuple[str, str]]:
    return [
        (param.metavar, param.help or "")
        for param in command.get_params(ctx)
        if param.param_type_name == "argument"
    ]


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    panels: dict[str, list[tuple[str, str]]] = {_OPTIONS: []}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if param.param_type_name == "option" and record:
            panel = getattr(param, "rich_help_panel", None) or _OPTIONS
            panels.setdefault(panel, []).append(record)
    names = [name for rows in panels.values() for name, _ in rows]
    width = max(len(name) for name in names if len(name) <= _NAME_WIDTH)
    for title, rows in panels.items():
        _write_section(formatter, title, rows, width)


def _write_section(formatter: Any, title: str, rows: list[tuple[str, str]], width: int = 0) -> None:
    """Format names and texts, with the texts of all sections of a page in one column."""
    if rows:
        with formatter.section(title):
            formatter.write_dl([(f"{name:<{width}}", text) for name, text in rows])
