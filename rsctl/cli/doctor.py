"""`rsctl doctor [JOB]`: what a submission needs, and what is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Optional

import typer

from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.output import in_color
from rsctl.cli.show import print_json, print_message, remedy_line, show_findings
from rsctl.doctor import Check, Verdict
from rsctl.findings import ExitCode
from rsctl.plan import choose_target, make_plan, name_of
from rsctl.runs.ids import placeholder
from rsctl.spec.document import read
from rsctl.spec.job import Job
from rsctl.stream.sanitize import sanitize
from rsctl.targets.base import Plan

_COLORS: dict[Verdict, str] = {
    "ok": "green",
    "warning": "yellow",
    "error": "red",
    "skipped": "bright_black",
}


@make_command("doctor")
@options.errors_as_json
def command(
    job: Annotated[
        Optional[str],
        typer.Argument(metavar="[JOB]", help="A job file, to check what it needs of its target."),
    ] = None,
    target: options.Target = None,
    settings: options.Settings = [],
    output: options.Output = "text",
) -> int:
    """Check what a submission needs; change nothing.

    Exit code: 0 if nothing that is needed is missing, else 3; 2 for a wrong JOB.
    """
    checks = _checks_of(job, target, settings) if job else _checks(target)
    done = list(checks) if output == "json" else list(_shown(checks))
    if output == "json":
        print_json({"checks": done})
    elif not job and not target and any(check.verdict == "skipped" for check in done):
        print_message("what was skipped is checked for a target: rsctl doctor [JOB] -t TARGET")
    is_well = not any(check.verdict == "error" for check in done)
    return int(ExitCode.SUCCEEDED if is_well else ExitCode.ENVIRONMENT)


def _checks(target: str | None) -> Iterator[Check]:
    """Without a job: this machine, and whether it can log in to the clouds."""
    from rsctl.doctor import aws, google
    from rsctl.doctor.machine import machine_checks

    yield from machine_checks(target)
    severity: Verdict = "error" if target else "skipped"
    if target in (None, "vertex"):
        yield google.signed_in(severity)
    if target in (None, "sagemaker"):
        yield aws.signed_in(severity)


def _checks_of(path: str, target: str | None, settings: Sequence[str]) -> Iterator[Check]:
    """For a job: this machine, and what the job's target must have for it."""
    from rsctl.doctor.machine import machine_checks

    document = read(path, settings)
    chosen = choose_target(document, target)
    document.require_job()
    submission = make_plan(document, chosen, placeholder(name_of(document)))
    plan = submission.plan
    show_findings(finding for finding in plan.findings if finding.severity == "warning")
    yield from machine_checks(chosen.name)
    yield from _cloud_checks(chosen.name, submission.job, plan)


def _cloud_checks(target: str, job: Job, plan: Plan) -> Iterator[Check]:
    if target == "vertex":
        from rsctl.doctor.google import google_checks

        yield from google_checks(job, plan)
    elif target == "sagemaker":
        from rsctl.doctor.aws import aws_checks

        yield from aws_checks(job, plan)
    else:
        return
    from rsctl.doctor.registry import registry_check

    yield registry_check(job, target)


def _shown(checks: Iterable[Check]) -> Iterator[Check]:
    """Print each check as it is done."""
    for check in checks:
        verdict = f"{check.verdict:<8}"
        if in_color(sys.stdout):
            verdict = typer.style(verdict, fg=_COLORS[check.verdict])
        typer.echo(f"{verdict}{sanitize(check.name)}: {sanitize(check.message)}")
        if check.remedy and check.verdict != "ok":
            typer.echo(sanitize(remedy_line(check.remedy)))
        sys.stdout.flush()
        yield check
