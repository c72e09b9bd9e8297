"""The `rsctl` program: names the commands, imports the one that is called, ends with its code."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from rsctl import __version__
from rsctl.findings import ExitCode, RsctlError

COMMANDS = {
    "init": "Start a job from a template.",
    "validate": "Show every mistake in job files.",
    "plan": "Show what a job would run, exactly; send nothing.",
    "submit": "Run a job and watch it to its end.",
    "list": "List runs.",
    "status": "Show a run and its replicas.",
    "logs": "Show the merged log of a run.",
    "metrics": "Show the metrics of a run.",
    "cancel": "End a run.",
    "schema": "Print the JSON Schema of the job file.",
    "completion": "Print a shell completion script.",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of a user's day rather than of the alphabet."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"rsctl.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Adds a did-you-mean to an unknown command."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as problem:
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"{problem.message.rstrip('.')}.{hint}", ctx) from None


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="rsctl")
def app() -> None:
    """One job spec to multi-node GPU training on Vertex AI, SageMaker or this machine.

    Start with `rsctl init ddp`, then `rsctl submit ddp/job.yaml`.
    """


def main() -> None:
    """Run the command line and exit; problems are findings on stderr, never tracebacks."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; returns its exit code."""
    try:
        code = app.main(arguments, prog_name="rsctl", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except RsctlError as problem:
        from rsctl.cli.show import show_findings

        show_findings(problem.findings)
        return int(problem.exit_code)
    except click.ClickException as problem:
        problem.show()
        return int(ExitCode.USAGE)
    except (click.Abort, KeyboardInterrupt):
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader has seen enough; the interpreter's own flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.SUCCEEDED)


if __name__ == "__main__":
    main()
