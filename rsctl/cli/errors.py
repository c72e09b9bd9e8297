"""What ends a command with an error: shown as findings, never as a traceback."""

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
        return error("system", str(problem), "RSCTL_DEBUG=1 shows where")
    message = f"rsctl broke down: {type(problem).__name__}: {problem}"
    return error("bug", message, "please report it, with what RSCTL_DEBUG=1 shows")
