"""What a submission needs, looked at one thing after the other; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Optional

import msgspec

from rsctl.findings import RsctlError

Verdict = Literal["ok", "warning", "error", "skipped"]


class Check(msgspec.Struct, kw_only=True):
    """One thing that was looked at, and what to do where it is not well.

    `path` is the key of the spec that made it matter.
    """

    name: str
    verdict: Verdict
    message: str
    remedy: Optional[str] = None
    path: Optional[str] = None


def ok(name: str, message: str) -> Check:
    """It is as it should be."""
    return Check(name=name, verdict="ok", message=message)


def skipped(name: str, message: str, remedy: str | None = None) -> Check:
    """It could not be looked at, or is not needed."""
    return Check(name=name, verdict="skipped", message=message, remedy=remedy)


def look(name: str, at: Callable[[], str], severity: Verdict = "error") -> Check:
    """Whether something works: `at` says in words how well, or raises RsctlError."""
    try:
        return ok(name, at())
    except RsctlError as problem:
        finding = problem.findings[0]
        return Check(
            name=name,
            verdict=severity,
            message=finding.message,
            remedy=finding.remedy,
            path=finding.path,
        )
