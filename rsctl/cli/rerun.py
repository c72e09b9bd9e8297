"""`rsctl rerun RUN`: submit a run again, exactly."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from rsctl.api import prepare_rerun
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.interrupts import Interrupts
from rsctl.cli.plan import plan_text
from rsctl.cli.runs import show_outdated
from rsctl.cli.show import print_json, show_findings
from rsctl.cli.silence import silence_told
from rsctl.cli.submit import Detach, Get, no_job_errors, send_and_follow
from rsctl.cli.views.next_commands import recorded_resume_command
from rsctl.findings import ExitCode
from rsctl.runs.stream.sanitize import sanitize


@make_command("rerun", json_errors=False)
def command(
    context: typer.Context,
    run: options.RunId,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the differences and the plan, as plan; send nothing."),
    ] = False,
    detach: Detach = False,
    get: Get = None,
    cancel_on_interrupt: options.CancelOnInterrupt = None,
    output: options.Output = "text",
) -> int:
    """Submit a run again, exactly, and watch it until it ends.

    The new run has the same job file, source, image, arguments, variables, target and placements.
    It starts from the beginning, not from checkpoints. Before it submits, rsctl names what is not
    as it was.

    Exit code: as of `rsctl submit`; 0 with --dry-run.
    """
    if get is not None and (detach or dry_run):
        context.fail("--get downloads results when the run ends: omit --detach and --dry-run")
    interrupts = context.with_resource(Interrupts().listening())
    with no_job_errors(output), silence_told(run):
        prepared = prepare_rerun(run, on_outdated=show_outdated)
    if dry_run:
        if output == "json":
            print_json({"plan": prepared.plan, "findings": prepared.findings})
        else:
            show_findings(prepared.findings)
            typer.echo(sanitize(plan_text(prepared.plan, [])), nl=False)
        return int(ExitCode.SUCCEEDED)
    resume = partial(recorded_resume_command, rehearsal=prepared.rehearsal_options)
    return send_and_follow(
        context, prepared, None, interrupts, detach, get, cancel_on_interrupt, output, resume
    )
