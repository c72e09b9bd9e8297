"""Errors that end a command, shown as findings and never as tracebacks."""

from __future__ import annotations

import os

from rsctl.cli.show import show_findings
from rsctl.findings import ExitCode, Finding, RsctlError, error


def show_error(problem: BaseException) -> int:
    """Show an error on stderr; returns the exit code."""
    if isinstance(problem, KeyboardInterrupt):
        return int(ExitCode.INTERRUPTED)
    if isinstance(problem, RsctlError):
        show_findings(problem.findings)
        return int(problem.exit_code)
    show_findings([_unforeseen(problem)])
    return int(ExitCode.ENVIRONMENT)


def _unforeseen(problem: BaseException) -> Finding:
    if os.environ.get("RSCTL_DEBUG"):
        import traceback

        traceback.print_exception(problem)
    if isinstance(problem, OSError):
        return error("system", str(problem), "set RSCTL_DEBUG=1 to see the traceback")
    message = f"rsctl failed unexpectedly: {type(problem).__name__}: {problem}"
    return error("bug", message, "report it, with the output of RSCTL_DEBUG=1")
