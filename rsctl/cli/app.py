"""The `rsctl` program: names the commands, imports the one that is called, ends with its code."""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import Annotated, Any

import typer
from typer.main import get_command

from rsctl import __version__
from rsctl.cli.command import LazyGroup
from rsctl.cli.output import reset_output

PROGRAM = "rsctl"
COMPLETION_VARIABLE = "_RSCTL_COMPLETE"
_OBJECTS_BETWEEN_COLLECTIONS = 100_000  # more than a plan makes: looking for cycles costs it 3 %
PANELS = {
    "Jobs": {
        "init": "Start a job from a template.",
        "validate": "Show every mistake in job files.",
        "plan": "Show what a job would run, exactly; send nothing.",
        "advise": "Say how many reducers a job should have, and what that costs.",
        "submit": "Run a job and watch it to its end.",
        "build-image": "Build a job's image, and push it if asked.",
    },
    "Runs": {
        "list": "List runs, the newest first.",
        "status": "Show a run and its replicas.",
        "logs": "Show the merged log of a run.",
        "metrics": "Show the metrics of a run.",
        "export": "Write runs and benches as tables: Parquet, CSV, JSON.",
        "get": "Download what a run has left.",
        "open": "Show the pages about a run.",
        "report": "Write one HTML file about runs and benches, with charts.",
        "track": "Send what trackers such as MLflow still lack of a run.",
        "cancel": "End a run.",
        "forget": "Remove a run from the list.",
        "prune": "Remove old runs and benches; show what goes.",
    },
    "Benchmarks": {
        "bench": "Run the cells of a matrix, repeated; see and end such benches.",
        "compare": "Compare runs, benches and baselines.",
        "gate": "Decide a benchmark job against its baseline.",
    },
    "Setup and tools": {
        "doctor": "Check what a submission needs; change nothing.",
        "catalog": "List machines of the clouds and what they cost.",
        "emulate": "Emulate a cloud on this machine, for its own clients too.",
        "schema": "Print the JSON Schema of the job file.",
        "completion": "Print a shell completion script.",
    },
}
COMMANDS = {name: text for commands in PANELS.values() for name, text in commands.items()}


class Commands(LazyGroup):
    """All commands."""

    panels = PANELS


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"{PROGRAM}, version {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """One job spec to multi-node GPU training on Vertex AI, SageMaker or this machine.

    Start with `rsctl init ddp`, then `rsctl submit ddp/job.yaml`.
    """


def make_program(is_completing: bool = False) -> Any:
    """The group of all commands; `is_completing` registers typer's classes for shells."""
    settings = {"help_option_names": ["--help", "-h"], "max_content_width": 100}
    app = typer.Typer(
        cls=Commands,
        add_completion=is_completing,
        rich_markup_mode=None,
        no_args_is_help=True,
        context_settings=settings,
    )
    app.callback()(_root)
    program: Any = get_command(app)
    # Typer adds options for completion then; this program has a command for it.
    program.params = [param for param in program.params if not param.name.endswith("_completion")]
    return program


def main() -> None:
    """Run the command line and exit; problems are findings on stderr, never tracebacks."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    _prepare_output()
    code = run(sys.argv[1:])
    _settle_output()
    gc.disable()  # nor at exit
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; returns its exit code.

    An unforeseen error, such as a full disk or a bug, ends with 3 (environment): nothing is
    known of the job then. RSCTL_DEBUG=1 shows its traceback.
    """
    reset_output()
    try:
        program = make_program(is_completing=COMPLETION_VARIABLE in os.environ)
        program.main(arguments, PROGRAM, COMPLETION_VARIABLE)  # shows wrong usage, and exits
    except SystemExit as end:
        is_unread = isinstance(end.__context__, BrokenPipeError)  # the reader has seen enough
        return 0 if is_unread else int(end.code or 0)
    except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - becomes a finding
        from rsctl.cli.errors import show_error

        return show_error(problem)
    return 0


def _prepare_output() -> None:
    """Writing must not fail for a character, nor for a stream that was closed from the start."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _settle_output() -> None:
    """The interpreter's own flush at exit must not fail for a reader that has gone."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except ValueError:  # whoever wrote to it has closed it, as that reader had gone
            continue
