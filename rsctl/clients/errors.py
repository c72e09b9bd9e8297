"""Errors of the clouds' services: how known ones are recognised, and what to do about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Optional

from rsctl.findings import ExitCode, Finding, RsctlError, error

NO_CREDENTIALS = "credentials-missing"
"""The code of a finding that no cloud credentials are here at all."""

GOOGLE_LOGIN = (
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the "
    "file of a service account"
)
AWS_LOGIN = "run `aws sso login` or `aws configure`, or set AWS_PROFILE to a profile that works"


@dataclass(frozen=True)
class KnownError:
    """An error that users meet: the service's codes and a pattern of its message, then a finding.

    No `codes` stand for any, no `pattern` for any message. `summary` goes before the service's own
    message in the finding's; `path` is the field that it is about, None where that is the caller's.
    `is_transient` says that the same call may succeed a little later.
    """

    code: str
    remedy: Optional[str]
    path: Optional[str] = None
    exit_code: ExitCode = ExitCode.REFUSED
    codes: frozenset[str] = frozenset()
    pattern: Optional[re.Pattern[str]] = None
    summary: Optional[str] = None
    is_transient: bool = False

    def fits(self, codes: Iterable[str], message: str) -> bool:
        """Whether an error with these codes and this message is the one."""
        has_code = not self.codes or not self.codes.isdisjoint(codes)
        return has_code and (self.pattern is None or self.pattern.search(message) is not None)


def find_known_error(
    table: Iterable[KnownError], message: str, *codes: str
) -> Optional[KnownError]:
    """The first row of a table that fits; None if nothing is known of the error."""
    return next(_fitting(table, message, codes), None)


def _fitting(
    table: Iterable[KnownError], message: str, codes: tuple[str, ...]
) -> Iterator[KnownError]:
    return (known for known in table if known.fits(codes, message))


class NoAnswer(RsctlError):
    """No answer came, or one that asks to call again later: the call may have been carried out.

    Not if the service `is_busy` and asks to be called later, nor if it was not `sent` at all.
    `reason` is what happened, without who gave no answer where callers say that themselves.
    """

    def __init__(
        self,
        reason: str,
        exit_code: ExitCode,
        *findings: Finding,
        is_busy: bool = False,
        sent: bool = True,
    ) -> None:
        super().__init__(exit_code, *findings)
        self.reason, self.is_busy, self.sent = reason, is_busy, sent


def no_answer(who: str, reason: str, sent: bool = True) -> NoAnswer:
    """The network's fault, as far as one can see from here; `who` is a host or a service."""
    remedy = "check the network, then run the command again"
    finding = error("network", f"{who} gives no answer: {reason}", remedy)
    return NoAnswer(reason, ExitCode.ENVIRONMENT, finding, sent=sent)
