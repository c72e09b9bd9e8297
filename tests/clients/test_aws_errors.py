"""One table of AWS's error codes: whole findings, whichever service it is."""

from __future__ import annotations

import pytest

from rsctl.clients.aws_errors import aws_error
from rsctl.clients.errors import AWS_LOGIN
from rsctl.findings import ExitCode, error
from rsctl.known_errors import KnownError

CLOCK = "set this machine's clock: AWS accepts only current signatures"
DENIED = "ask for the permission that the message names, or use another profile with AWS_PROFILE"
UNKNOWN = "AWS does not recognize these credentials"


@pytest.mark.parametrize(
    ("code", "message", "exit_code", "finding", "summary", "remedy"),
    [
        ("ExpiredToken", "old", "ENVIRONMENT", "credentials-expired", None, AWS_LOGIN),
        ("ExpiredTokenException", "old", "ENVIRONMENT", "credentials-expired", None, AWS_LOGIN),
        ("InvalidClientTokenId", "invalid", "ENVIRONMENT", "credentials", UNKNOWN, AWS_LOGIN),
        ("UnrecognizedClientException", "no", "ENVIRONMENT", "credentials", UNKNOWN, AWS_LOGIN),
        ("SignatureDoesNotMatch", "wrong", "ENVIRONMENT", "credentials", UNKNOWN, AWS_LOGIN),
        ("SignatureDoesNotMatch", "Signature expired: 1", "ENVIRONMENT", "clock", None, CLOCK),
        ("InvalidSignatureException", "Signature expired: 1", "ENVIRONMENT", "clock", None, CLOCK),
        (
            "RequestExpired",
            "Request has expired.",
            "ENVIRONMENT",
            "clock",
            None,
            f"{CLOCK}; if it is right, {AWS_LOGIN}",
        ),
        ("RequestTimeTooSkewed", "far apart", "ENVIRONMENT", "clock", None, CLOCK),
        ("AccessDenied", "no", "REFUSED", "denied", None, DENIED),
        ("AccessDeniedException", "no", "REFUSED", "denied", None, DENIED),
        ("UnauthorizedOperation", "no", "REFUSED", "denied", None, DENIED),
        ("403", "Forbidden", "REFUSED", "denied", None, DENIED),
        (
            "NoSuchBucket",
            "none",
            "REFUSED",
            "bucket",
            None,
            "create it: `aws s3 mb s3://NAME`, or use another bucket",
        ),
        ("SomethingElse", "odd", "REFUSED", "cloud", None, None),
    ],
)
def test_what_a_code_means(
    code: str, message: str, exit_code: str, finding: str, summary: str | None, remedy: str | None
) -> None:
    made = aws_error(code, message, "targets.sagemaker")
    assert (made.code, made.exit_code) == (code, ExitCode[exit_code])
    text = f"{summary or 'AWS refuses'}: {message} ({code})"
    assert made.findings == (error(finding, text, remedy, "targets.sagemaker"),)


def test_a_service_may_know_better() -> None:
    known = KnownError("role", "trust it", "targets.sagemaker.role", summary="no role")
    made = aws_error("AccessDenied", "no", "targets.sagemaker", lambda code, message: known)
    assert made.findings == (
        error("role", "no role: no (AccessDenied)", "trust it", "targets.sagemaker.role"),
    )
