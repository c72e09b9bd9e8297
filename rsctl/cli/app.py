"""The `rsctl` program: lists the commands, imports the one that is called, exits with its code."""

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
from rsctl.cli.output import is_in_ci, name_output, reset_output

PROGRAM = "rsctl"
COMPLETION_VARIABLE = "_RSCTL_COMPLETE"
PANELS = {
    "First steps": {
        "init": "Create a job file from a template or your script.",
        "plan": "Show exactly what a job would run; send nothing.",
        "submit": "Run a job and watch it until it ends.",
        "logs": "Show the merged log of a run.",
        "status": "Show a run and its replicas.",
        "cancel": "Cancel a run.",
    },
    "Jobs": {
        "validate": "Show every mistake in job files.",
        "advise": "Recommend a number of reducers for a job, with the cost.",
        "drill": "Run a job under faults, and report whether it survives.",
        "build-image": "Build a job's image, and optionally push it.",
    },
    "Runs": {
        "list": "List runs, newest first.",
        "watch": "Watch a run until it ends, as submit does.",
        "rerun": "Submit a run again, exactly.",
        "metrics": "Show the metrics of a run.",
        "debug": "Show what each rank does, and who holds up the others.",
        "ui": "Show runs and benches on a live page in the browser.",
        "profile": "Profile the ranks of a running local job.",
        "report": "Write an HTML report of runs and benches, with charts.",
        "get": "Download a run's results.",
        "export": "Export runs and benches as tables: Parquet, CSV, JSON.",
        "exec": "Run a command on a node of a run.",
        "shell": "Open a shell on a node of a run.",
        "open": "Show the web pages of a run.",
        "track": "Send a run's unsent data to its trackers.",
        "forget": "Remove a run from the list.",
        "prune": "Remove old runs and benches, and list what is removed.",
    },
    "Benchmarks": {
        "bench": "Run, watch and cancel repeated runs of a job matrix.",
        "diff": "Show what differs between two runs, and what moved.",
        "compare": "Compare runs, benches and baselines.",
        "gate": "Compare a benchmark job with its baseline, and pass or fail.",
        "history": "Show a job's samples over commits, and the steps in them.",
    },
    "Setup and tools": {
        "doctor": "Check the requirements of a submission; change nothing.",
        "catalog": "List cloud machines and their prices.",
        "mcp": "Serve tools for AI agents on standard input and output.",
        "emulate": "Emulate a cloud's API on this machine.",
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
    """Run multi-node GPU training on Vertex AI, SageMaker, Slurm or this machine from one job file.

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
    """Run the command line and exit; prints problems as findings on stderr, never as tracebacks."""
    _prepare_output()
    code = run(sys.argv[1:])
    _settle_output()
    gc.freeze()  # an exit looks for garbage even where collection is disabled
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; returns its exit code.

    An unexpected error, such as a full disk or a bug, exits with 3 (environment), because it says
    nothing about the job. RSCTL_DEBUG=1 shows its traceback.
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
    """Let writing survive unencodable characters and streams that are closed at the start, and let
    its errors name standard output.
    """
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if is_in_ci():
        from rsctl.cli.fence import fence_output

        fence_output()
    name_output()


def _settle_output() -> None:
    """Keep the interpreter's flush at exit from failing when the reader has closed the pipe."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except ValueError:  # a writer has closed it, because its reader had closed the pipe
            continue
