"""Clients of AWS, and what to say of their errors. boto3 is imported when the first is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rsctl.cloud.logins import AWS_LOGIN, NO_CREDENTIALS
from rsctl.findings import ExitCode, RsctlError, error

_TRIES = 6
_CONNECT_TIMEOUT = 10
_READ_TIMEOUT = 60


class _Known(NamedTuple):
    exit_code: ExitCode
    code: str
    remedy: str | None


_EXPIRED = _Known(ExitCode.ENVIRONMENT, "credentials-expired", AWS_LOGIN)
_DENIED = _Known(
    ExitCode.REFUSED,
    "denied",
    "ask for the permission that the message names, or take another profile with AWS_PROFILE",
)
_NO_BUCKET = _Known(ExitCode.REFUSED, "bucket", "create it: `aws s3 mb s3://NAME`, or name another")
_QUOTA = _Known(
    ExitCode.REFUSED,
    "quota",
    "wait for other builds to end, or ask in Service Quotas for more concurrently running builds",
)
_BUSY = _Known(ExitCode.REFUSED, "quota", "wait a minute, then run the command again")
_ROLE = _Known(
    ExitCode.REFUSED,
    "build-role",
    "let codebuild.amazonaws.com assume the role (its trust policy), or name another in "
    "targets.sagemaker.build_role",
)
_OTHER = _Known(ExitCode.REFUSED, "cloud", None)
_KNOWN = {
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "InvalidClientTokenId": _EXPIRED,
    "InvalidAccessKeyId": _EXPIRED,
    "UnrecognizedClientException": _EXPIRED,
    "SignatureDoesNotMatch": _EXPIRED,
    "InvalidSignatureException": _EXPIRED,
    "AccessDenied": _DENIED,
    "AccessDeniedException": _DENIED,
    "403": _DENIED,
    "NoSuchBucket": _NO_BUCKET,
    "AccountLimitExceededException": _QUOTA,
    "ThrottlingException": _BUSY,
    "SlowDown": _BUSY,
}


def client(service: str, region: str | None) -> Any:
    """A client that tries again by itself. Raises RsctlError."""
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "total_max_attempts": _TRIES},
        connect_timeout=_CONNECT_TIMEOUT,
        read_timeout=_READ_TIMEOUT,
    )
    with findings("targets.sagemaker"):
        # A session of its own: the shared one keeps the credentials that it once found.
        return boto3.Session(region_name=region).client(service, config=config)


@contextmanager
def findings(path: str | None) -> Iterator[None]:
    """Raise what AWS refuses, or what keeps us from asking, as RsctlError about the field."""
    from botocore import exceptions

    try:
        yield
    except exceptions.ClientError as problem:
        raise _refused(code_of(problem), problem, path) from None
    except (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.ProfileNotFound,
    ) as problem:
        message = f"no AWS credentials here: {problem}"
        finding = error(NO_CREDENTIALS, message, AWS_LOGIN)
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    except exceptions.HTTPClientError as problem:
        message = f"AWS gives no answer: {problem}"
        finding = error("network", message, "check the network, then run the command again")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    except exceptions.BotoCoreError as problem:
        message = f"AWS cannot be called: {problem}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("cloud", message, AWS_LOGIN)) from None


def code_of(problem: Any) -> str:
    """The code of a botocore ClientError."""
    return str(problem.response.get("Error", {}).get("Code", ""))


def _refused(code: str, problem: Any, path: str | None) -> RsctlError:
    said = str(problem.response.get("Error", {}).get("Message", "") or problem)[:1000]
    known = _KNOWN.get(code, _OTHER)
    if code == "InvalidInputException" and "AssumeRole" in said:
        known, path = _ROLE, "targets.sagemaker.build_role"
    finding = error(known.code, f"AWS refuses: {said} ({code})", known.remedy, path)
    return RsctlError(known.exit_code, finding)
