"""`rsctl validate JOB…`: every mistake in job files, at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from rsctl.cli import options
from rsctl.cli.command import OUTPUT, make_command
from rsctl.cli.show import print_json, show_findings
from rsctl.findings import ExitCode, Finding, RsctlError
from rsctl.plan import choose_target, plan_findings
from rsctl.spec.document import Document, cells_of, read
from rsctl.targets.base import Target


@make_command("validate")
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

    Exit code: 0 without errors, else 2.
    """
    findings: list[Finding] = []
    for job in jobs:
        document = _checked(job, target, settings)
        findings += document.findings
        if output == "text":
            show_findings(document.findings, document)
            if not document.has_errors:
                typer.echo(f"{job}: ok")
    if output == "json":
        print_json({"findings": findings})
    elif output == "sarif":
        from rsctl.cli.sarif import sarif

        print_json(sarif(findings))
    broken = any(finding.is_error for finding in findings)
    return int(ExitCode.USAGE if broken else ExitCode.SUCCEEDED)


def _checked(job: str, target: str | None, settings: Sequence[str]) -> Document:
    """The file with all that planning it finds, of each cell of its matrix too."""
    document = read(job, settings)
    chosen = choose_target(document, target)
    _plan(document, chosen)
    if document.job is not None and document.job.matrix and not document.has_errors:
        for _, cell in cells_of(document):
            _plan(cell, chosen)
            document.findings += [f for f in cell.findings if f not in document.findings]
    return document


def _plan(document: Document, target: Target) -> None:
    try:
        plan_findings(document, target)
    except RsctlError as problem:
        if problem.exit_code != ExitCode.USAGE:
            raise
