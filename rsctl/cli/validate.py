"""`rsctl validate JOB…`: show every mistake in job files."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from rsctl.api import load, validate
from rsctl.cli import options
from rsctl.cli.command import OUTPUT, make_command
from rsctl.cli.errors import keep_verdict
from rsctl.cli.output import without_reader
from rsctl.cli.show import print_json, show_findings
from rsctl.findings import ExitCode, Finding


@make_command("validate", json_errors=False)
def command(
    jobs: Annotated[
        list[str], typer.Argument(metavar="JOB...", help="Job files; - is standard input.")
    ],
    target: options.Target = None,
    settings: options.Settings = [],
    output: Annotated[
        Literal["text", "json", "sarif"],
        typer.Option(
            "--output",
            "-o",
            rich_help_panel=OUTPUT,
            help="json and sarif make standard output machine-readable; sarif is for code "
            "scanning.",
        ),
    ] = "text",
) -> int:
    """Show every mistake in job files.

    Exit code: 0 without errors, otherwise 2.
    """
    findings: list[Finding] = []
    code = int(ExitCode.SUCCEEDED)
    for job in jobs:
        file = load(job, set=settings, strict=False)
        checked = validate(file, target)
        findings += checked
        if output == "text":
            show_findings(checked, file)
            if not any(finding.is_error for finding in checked):
                code = keep_verdict(code, partial(without_reader()(typer.echo), f"{job}: ok"))
    if any(finding.is_error for finding in findings):
        code = int(ExitCode.USAGE)
    if output == "json":
        return keep_verdict(code, lambda: print_json({"findings": findings}))
    if output == "sarif":
        from rsctl.cli.views.sarif import sarif

        return keep_verdict(code, lambda: print_json(sarif(findings)))
    return code
