"""Checks of the requirements of a submission; they change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Optional

import msgspec

from rsctl.findings import RsctlError

Verdict = Literal["ok", "warning", "error", "skipped"]


class Check(msgspec.Struct, kw_only=True):
    """The result of one check, with the remedy where it failed.

    `path` is the key of the spec that is checked.
    """

    name: str
    verdict: Verdict
    message: str
    remedy: Optional[str] = None
    path: Optional[str] = None


def ok(name: str, message: str) -> Check:
    """A check that has passed."""
    return Check(name=name, verdict="ok", message=message)


def skipped(name: str, message: str, remedy: str | None = None) -> Check:
    """A check that was not possible, or is not needed."""
    return Check(name=name, verdict="skipped", message=message, remedy=remedy)


def run_check(name: str, check: Callable[[], str], severity: Verdict = "error") -> Check:
    """The result of `check`, which returns a message or raises RsctlError."""
    try:
        return ok(name, check())
    except RsctlError as problem:
        finding = problem.findings[0]
        return Check(
            name=name,
            verdict=severity,
            message=finding.message,
            remedy=finding.remedy,
            path=finding.path,
        )
