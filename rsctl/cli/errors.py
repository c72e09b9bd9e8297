"""Errors that end a command, shown as findings and never as tracebacks."""

from __future__ import annotations

import os

from rsctl.cli.show import show_findings
from rsctl.findings import ExitCode, Finding, RsctlError, error


def show_error(problem: Exception | KeyboardInterrupt) -> int:
    """Show an error on stderr; returns the exit code."""
    if isinstance(problem, KeyboardInterrupt):
        return int(ExitCode.INTERRUPTED)
    show_findings(findings_of_error(problem))
    return int(problem.exit_code if isinstance(problem, RsctlError) else ExitCode.ENVIRONMENT)


def findings_of_error(problem: Exception) -> tuple[Finding, ...]:
    """An error as findings; RSCTL_DEBUG=1 shows the traceback of an unforeseen one."""
    return problem.findings if isinstance(problem, RsctlError) else (_unforeseen(problem),)


def _unforeseen(problem: BaseException) -> Finding:
    if os.environ.get("RSCTL_DEBUG"):
        import traceback

        traceback.print_exception(problem)
    if isinstance(problem, OSError):
        return error("system", str(problem), "set RSCTL_DEBUG=1 to see the traceback")
    message = f"rsctl failed unexpectedly: {type(problem).__name__}: {problem}"
    return error("bug", message, "report it, with the output of RSCTL_DEBUG=1")
