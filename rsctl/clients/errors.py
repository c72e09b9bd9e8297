"""Errors that the clients of all clouds share: no answer, and remedies for credentials."""

from __future__ import annotations

from typing import Any

from rsctl.findings import ExitCode, Finding, RsctlError, error

OF_OTHER_TYPES = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""Errors of vendors' libraries as they read an answer whose JSON is not what they expect."""

NO_CREDENTIALS = "credentials-missing"
"""The code of a finding that no cloud credentials are here at all."""

GOOGLE_LOGIN = (
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the "
    "file of a service account"
)
AWS_LOGIN = "run `aws sso login` or `aws configure`, or set AWS_PROFILE to a profile that works"


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


def next_page(who: str, token: Any, last: Any) -> str:
    """The token of the next page, empty after the last one.

    Raises NoAnswer for the token of the page before: the list would not end.
    """
    if token and token == last:
        raise no_answer(who, "it repeats a page of its list")
    return str(token or "")
