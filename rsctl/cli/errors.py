"""Errors that end a command, shown as findings and never as tracebacks."""

from __future__ import annotations

import os
from collections.abc import Callable

from rsctl.atomic_file import FULL
from rsctl.cli.output import STANDARD_OUTPUT, abandon_stdout
from rsctl.cli.show import show_findings
from rsctl.findings import ExitCode, Finding, RsctlError, error


def show_error(problem: Exception | KeyboardInterrupt) -> int:
    """Show an error on stderr; returns the exit code."""
    if isinstance(problem, KeyboardInterrupt):
        return int(ExitCode.INTERRUPTED)
    show_findings(findings_of_error(problem))
    return int(problem.exit_code if isinstance(problem, RsctlError) else ExitCode.ENVIRONMENT)


def keep_verdict(code: int, *steps: Callable[[], object]) -> int:
    """Take each step that follows a verdict, such as a report; returns the exit code.

    An error of a step is shown. It replaces the exit code of a success, and no other one.
    """
    for step in steps:
        try:
            step()
        except Exception as problem:  # noqa: BLE001 - shown
            shown = show_error(problem)
            code = code or shown
            if isinstance(problem, OSError) and problem.filename == STANDARD_OUTPUT:
                abandon_stdout()  # or the flush at the end would fail again
    return code


def findings_of_error(problem: Exception, may_repeat: bool = True) -> tuple[Finding, ...]:
    """An error as findings; RSCTL_DEBUG=1 shows the traceback of an unforeseen one.

    `may_repeat` is whether the command can run again, as remedies then say.
    """
    while hasattr(problem, "exceptions"):  # a group of the tasks of `rsctl mcp`
        problem = problem.exceptions[0]
    if isinstance(problem, RsctlError):
        return problem.findings
    if isinstance(problem, OSError) and problem.filename == STANDARD_OUTPUT:
        return (_unwritten(problem, may_repeat),)
    return (_unforeseen(problem),)


def _unwritten(problem: OSError, may_repeat: bool) -> Finding:
    remedy = "free disk space" if problem.errno in FULL else "redirect the output to another file"
    message = f"cannot write to {STANDARD_OUTPUT}: {problem.strerror}"
    return error("system", message, remedy + ", and run the command again" * may_repeat)


def _unforeseen(problem: BaseException) -> Finding:
    if os.environ.get("RSCTL_DEBUG"):
        import traceback

        traceback.print_exception(problem)
    if isinstance(problem, OSError):
        is_full = problem.errno in FULL
        remedy = "free disk space" if is_full else "set RSCTL_DEBUG=1 to see the traceback"
        if problem.filename is None:
            if _is_folder_gone():
                message = "the working directory no longer exists"
                return error("system", message, "change to a folder that exists")
            return error("system", str(problem), remedy)
        if not is_full:
            remedy = f"repair, move or remove that file, or {remedy}"
        return error("system", f"cannot use {problem.filename}: {problem.strerror}", remedy)
    if isinstance(problem, UnicodeEncodeError):
        shown = problem.object.encode(errors="backslashreplace").decode()
        message = f"{shown} cannot be written as {problem.encoding}"
        remedy = "use a path that is valid UTF-8, and a locale of UTF-8 such as LC_ALL=C.UTF-8"
        return error("system", message, remedy)
    message = f"rsctl failed unexpectedly: {type(problem).__name__}: {problem}"
    return error("bug", message, "report it, with the output of RSCTL_DEBUG=1")


def _is_folder_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
