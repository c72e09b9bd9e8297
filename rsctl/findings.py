"""Findings, exit codes, job states, and the exception that carries findings.

Every problem, from a misspelled key to a full quota, is one `Finding`: its position, the problem,
and the remedy. Code that cannot continue raises `RsctlError` with its findings.
"""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Any, Literal

import msgspec

Severity = Literal["error", "warning", "note"]

SECRET = "secret"  # noqa: S105 - a code
"""The code of a finding about a line that is not to be shown."""


class ExitCode(IntEnum):
    """Exit codes of every command. They are an interface: pipelines branch on them."""

    SUCCEEDED = 0
    JOB_FAILED = 1
    USAGE = 2
    ENVIRONMENT = 3
    REFUSED = 4
    CANCELLED = 5
    TIMED_OUT = 6
    GATE_FAILED = 7
    INCONCLUSIVE = 8
    RESULT_UNKNOWN = 9
    INTERRUPTED = 130


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem or remark, with its position and its remedy.

    `path` is a key path of the spec (`workers.count`, `run.args[2]`), or None. `line` and `column`
    count from 1 and point into `file`.
    """

    severity: Severity
    code: str
    message: str
    remedy: str | None = None
    path: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def position(self) -> str:
        """`job.yaml:3:10: `; empty without a file."""
        if not self.file:
            return ""
        return self.file + (f":{self.line}:{self.column}" if self.line else "") + ": "

    @property
    def is_error(self) -> bool:
        """Whether the command cannot continue."""
        return self.severity == "error"


def error(code: str, message: str, remedy: str | None = None, path: str | None = None) -> Finding:
    """A finding after which the command cannot continue."""
    return Finding(severity="error", code=code, message=message, remedy=remedy, path=path)


def warning(code: str, message: str, remedy: str | None = None, path: str | None = None) -> Finding:
    """A finding that the user should act on; the command continues."""
    return Finding(severity="warning", code=code, message=message, remedy=remedy, path=path)


def note(code: str, message: str, remedy: str | None = None, path: str | None = None) -> Finding:
    """Something the user may want to know, such as a field that this target does not use."""
    return Finding(severity="note", code=code, message=message, remedy=remedy, path=path)


def first_of(texts: Sequence[str], most: int) -> str:
    """The first of many texts for a message: `a, b and 3 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 run`, `2 runs`, `1,200 runs`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


class RsctlError(Exception):
    """The command cannot continue. Carries the findings to show and the exit code.

    As text it is what the command line shows: each finding with its position and its remedy.
    """

    def __init__(self, exit_code: ExitCode, *findings: Finding) -> None:
        super().__init__("; ".join(finding.message for finding in findings))
        self.exit_code = exit_code
        self.findings = findings

    def __reduce__(self) -> tuple[Any, ...]:
        """Itself for pickle and copy, also of a subclass that is made of something else."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore

    def __str__(self) -> str:
        """Each finding as `job.yaml:3:10: workers.count: message`, with its remedy below it."""
        return "\n".join(map(_text, self.findings))

    @property
    def summary(self) -> str:
        """The messages without warnings in one line, for use within another message."""
        why = [each for each in self.findings if each.severity != "warning"]
        return "; ".join(finding.message for finding in why or self.findings)


def _text(finding: Finding) -> str:
    kind = "" if finding.is_error else f"{finding.severity}: "
    key = f"{finding.path}: " if finding.path else ""
    remedy = f"\n    -> {finding.remedy}" if finding.remedy else ""
    return f"{finding.position}{kind}{key}{finding.message}{remedy}"


class JobState(str, Enum):
    """The state of a job or of a replica, the same on every target."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def is_final(self) -> bool:
        """Whether the job has ended and will not change again."""
        return self in _FINAL

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command that followed the job to this state."""
        return _FINAL.get(self, ExitCode.INTERRUPTED)


_FINAL = {
    JobState.SUCCEEDED: ExitCode.SUCCEEDED,
    JobState.FAILED: ExitCode.JOB_FAILED,
    JobState.CANCELLED: ExitCode.CANCELLED,
    JobState.EXPIRED: ExitCode.TIMED_OUT,
}
