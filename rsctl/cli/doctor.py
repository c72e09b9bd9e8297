"""`rsctl doctor [JOB]`: the requirements of a submission, and those that are not met."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Optional

import typer

from rsctl.api import Check, check_environment, load
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.output import in_color, without_reader
from rsctl.cli.show import print_json, print_message, remedy_line, show_findings
from rsctl.findings import ExitCode
from rsctl.runs.stream.sanitize import sanitize

_COLORS: dict[str, str] = {
    "ok": "green",
    "warning": "yellow",
    "error": "red",
    "skipped": "bright_black",
}


@make_command("doctor")
def command(
    job: Annotated[
        Optional[str],
        typer.Argument(metavar="[JOB]", help="A job file whose target's requirements are checked."),
    ] = None,
    target: options.Target = None,
    settings: options.Settings = [],
    output: options.Output = "text",
) -> int:
    """Check the requirements of a submission; change nothing.

    Exit code: 0 if all requirements are met, otherwise 3; 2 for an invalid JOB.
    """
    file = load(job, set=settings) if job else None
    checks = check_environment(file, target, on_finding=lambda found: show_findings([found]))
    done = list(checks) if output == "json" else list(_shown(checks))
    if output == "json":
        print_json({"checks": done})
    elif not job and not target and any(check.verdict == "skipped" for check in done):
        print_message("to run the skipped checks, name a target: rsctl doctor [JOB] -t TARGET")
    is_well = not any(check.verdict == "error" for check in done)
    return int(ExitCode.SUCCEEDED if is_well else ExitCode.ENVIRONMENT)


def _shown(checks: Iterable[Check]) -> Iterator[Check]:
    """Print each check when it finishes."""
    for check in checks:
        verdict = f"{check.verdict:<8}"
        if in_color(sys.stdout):
            verdict = typer.style(verdict, fg=_COLORS[check.verdict])
        with without_reader():
            typer.echo(f"{verdict}{sanitize(check.name)}: {sanitize(check.message)}")
            if check.remedy and check.verdict != "ok":
                typer.echo(sanitize(remedy_line(check.remedy)))
        yield check
