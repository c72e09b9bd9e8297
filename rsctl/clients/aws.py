"""Clients of AWS, and what to say of their errors. boto3 is imported when the first is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Optional

from rsctl.clients.clients import aws_client, aws_session
from rsctl.clients.logins import AWS_LOGIN, NO_CREDENTIALS
from rsctl.findings import ExitCode, Finding, RsctlError, error

_TRIES = 6
_CONNECT_TIMEOUT = 10
_READ_TIMEOUT = 60


class Known(NamedTuple):
    """What to say of an error that users meet; `path` is the field that it is about."""

    exit_code: ExitCode
    code: str
    remedy: Optional[str]
    path: Optional[str] = None


Explain = Callable[[str, str], Optional[Known]]
"""What is known of an error, from its code and message, where one kind of call knows better."""


_EXPIRED = Known(ExitCode.ENVIRONMENT, "credentials-expired", AWS_LOGIN)
_DENIED = Known(
    ExitCode.REFUSED,
    "denied",
    "ask for the permission that the message names, or take another profile with AWS_PROFILE",
)
_NO_BUCKET = Known(ExitCode.REFUSED, "bucket", "create it: `aws s3 mb s3://NAME`, or name another")
_QUOTA = Known(
    ExitCode.REFUSED,
    "quota",
    "wait for other builds to end, or ask in Service Quotas for more concurrently running builds",
)
_BUSY = Known(ExitCode.REFUSED, "quota", "wait a minute, then run the command again")
_ROLE = Known(
    ExitCode.REFUSED,
    "build-role",
    "let codebuild.amazonaws.com assume the role (its trust policy), or name another in "
    "targets.sagemaker.build_role",
)
_CLOCK = Known(
    ExitCode.ENVIRONMENT, "clock", "set this machine's clock: AWS takes only signatures of now"
)
_OTHER = Known(ExitCode.REFUSED, "cloud", None)
_KNOWN = {
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "InvalidClientTokenId": _EXPIRED,
    "InvalidAccessKeyId": _EXPIRED,
    "UnrecognizedClientException": _EXPIRED,
    "SignatureDoesNotMatch": _EXPIRED,
    "InvalidSignatureException": _EXPIRED,
    "RequestExpired": _EXPIRED,
    "RequestTimeTooSkewed": _CLOCK,
    "AccessDenied": _DENIED,
    "AccessDeniedException": _DENIED,
    "403": _DENIED,
    "NoSuchBucket": _NO_BUCKET,
    "AccountLimitExceededException": _QUOTA,
    "ThrottlingException": _BUSY,
    "SlowDown": _BUSY,
}


_CREDENTIALS_RUN_OUT = frozenset(
    {
        *("SSOTokenLoadError", "UnauthorizedSSOTokenError", "TokenRetrievalError"),
        *("CredentialRetrievalError", "LoginRefreshRequired", "LoginTokenLoadError"),
    }
)  # by name, since each version of botocore has more of them


def client(service: str, region: str | None) -> Any:
    """A client that tries again by itself. Raises RsctlError."""
    return session_client(session(region), service, _TRIES)


def session(region: str | None) -> Any:
    """Credentials and region. Raises RsctlError."""
    with findings("targets.sagemaker"):
        return aws_session(region)


def session_client(session: Any, service: str, tries: int) -> Any:
    """A client of a session. Raises RsctlError."""
    with findings("targets.sagemaker"):
        return aws_client(
            session,
            service,
            retries={"mode": "standard", "total_max_attempts": tries},
            connect_timeout=_CONNECT_TIMEOUT,
            read_timeout=_READ_TIMEOUT,
        )


@contextmanager
def findings(path: str | None, explain: Explain | None = None) -> Iterator[None]:
    """Raise what AWS refuses, or what keeps us from asking, as RsctlError about the field."""
    from botocore import exceptions

    try:
        yield
    except exceptions.ClientError as problem:
        raise refused(code_of(problem), message_of(problem), path, explain) from None
    except (exceptions.HTTPClientError, exceptions.ConnectionError) as problem:
        message = f"AWS gives no answer: {problem}"
        finding = error("network", message, "check the network, then run the command again")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    except exceptions.ParamValidationError as problem:
        message = f"this is no request for AWS: {problem}"
        finding = error("request", message, "correct the key that the message names", path)
        raise RsctlError(ExitCode.USAGE, finding) from None
    except exceptions.BotoCoreError as problem:
        raise RsctlError(ExitCode.ENVIRONMENT, _cannot_call(problem)) from None


def _cannot_call(problem: Exception) -> Finding:
    """What keeps us from asking at all."""
    kind = type(problem).__name__
    if kind in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound"):
        return error(NO_CREDENTIALS, f"no AWS credentials here: {problem}", AWS_LOGIN)
    if kind in _CREDENTIALS_RUN_OUT:
        message = f"the AWS credentials cannot be used: {problem}"
        return error("credentials-expired", message, AWS_LOGIN)
    if kind in ("NoRegionError", "InvalidRegionError"):
        return error(
            "region",
            f"AWS cannot be called: {problem}",
            "name a region, such as us-east-1",
            "targets.sagemaker.region",
        )
    return error("cloud", f"AWS cannot be called: {problem}", AWS_LOGIN)


def code_of(problem: Any) -> str:
    """The code of a botocore ClientError."""
    return str(problem.response.get("Error", {}).get("Code", ""))


def message_of(problem: Any) -> str:
    """What a botocore ClientError says, of bounded length."""
    said = problem.response.get("Error", {}).get("Message", "") or problem
    return str(said)[:1000]


def refused(
    code: str, message: str, path: str | None, explain: Explain | None = None
) -> RsctlError:
    """An error of AWS, in the words of what is known of it."""
    known = (explain and explain(code, message)) or _KNOWN.get(code, _OTHER)
    if code in ("InvalidSignatureException", "SignatureDoesNotMatch") and "expired" in message:
        known = _CLOCK
    if code == "InvalidInputException" and "AssumeRole" in message:
        known, path = _ROLE, "targets.sagemaker.build_role"
    text = f"AWS refuses: {message} ({code})"
    finding = error(known.code, text, known.remedy, known.path or path)
    return RsctlError(known.exit_code, finding)
