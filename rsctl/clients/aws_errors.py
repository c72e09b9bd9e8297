"""Errors of AWS as findings: one table of its codes, and the reasons why a call cannot be made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Optional

from rsctl.clients.errors import AWS_LOGIN, NO_CREDENTIALS, NoAnswer, no_answer
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.installation import pip_install
from rsctl.known_errors import KnownError, find_known_error

FindKnown = Callable[[str, str], Optional[KnownError]]
"""The known error for a code and message; a kind of call may have more specific ones."""

_LONGEST = 1000
ACCESS_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403"})
"""AWS's codes for a permission that is missing."""

_PERMISSIONS = {
    **dict.fromkeys(
        ("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"), "PutObject"
    ),
    **{"HeadObject": "GetObject", "HeadBucket": "ListBucket", "ListObjectsV2": "ListBucket"},
}
"""S3's operations whose permissions have other names."""

_OTHER_REGION = KnownError(
    "bucket-region",
    "find the bucket's region with `aws s3api get-bucket-location --bucket NAME`, and use a bucket "
    "in the job's region; to copy files that are there: `aws s3 cp --recursive --region REGION`",
)
"""S3 redirects a call that boto3, which looks for the bucket's region, has not led there."""

_REDIRECTED = frozenset(
    {
        *("PermanentRedirect", "301", "TemporaryRedirect", "307"),
        "IllegalLocationConstraintException",
    }
)

CREATE_BUCKET = "create it: `aws s3 mb s3://NAME`, or use another bucket"
_CLOCK = "set this machine's clock: AWS accepts only current signatures"
_UNKNOWN = "AWS does not recognize these credentials"
_KNOWN = (
    KnownError(
        "clock",
        _CLOCK,
        exit_code=ExitCode.ENVIRONMENT,
        codes=frozenset({"InvalidSignatureException", "SignatureDoesNotMatch"}),
        pattern=re.compile("expired|not yet current"),
    ),
    KnownError(
        "clock",
        _CLOCK,
        exit_code=ExitCode.ENVIRONMENT,
        codes=frozenset({"RequestTimeTooSkewed"}),
    ),
    KnownError(
        # The documentation has it for a wrong clock, and EC2 says it of an old session too.
        "clock",
        f"{_CLOCK}; if it is right, {AWS_LOGIN}",
        exit_code=ExitCode.ENVIRONMENT,
        codes=frozenset({"RequestExpired"}),
    ),
    KnownError(
        "credentials-expired",
        AWS_LOGIN,
        exit_code=ExitCode.ENVIRONMENT,
        codes=frozenset({"ExpiredToken", "ExpiredTokenException"}),
    ),
    KnownError(
        # A region that the account has not enabled says so, too.
        "credentials",
        f"{AWS_LOGIN}; AWS enables new regions such as eu-south-1 only on request: if only one "
        "region refuses them, enable it for the account",
        exit_code=ExitCode.ENVIRONMENT,
        codes=frozenset({"UnrecognizedClientException", "InvalidClientTokenId"}),
        summary=_UNKNOWN,
    ),
    KnownError(
        "credentials",
        AWS_LOGIN,
        exit_code=ExitCode.ENVIRONMENT,
        codes=frozenset(
            {
                *("InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignature"),
                *("InvalidToken", "InvalidAccessKeyId"),
            }
        ),
        summary=_UNKNOWN,
    ),
    KnownError(
        "denied",
        "ask the administrators of the policy for an exception, or use a region or an account that "
        "it allows: its denial takes precedence over any permission",
        codes=ACCESS_DENIED,
        pattern=re.compile("with an explicit deny"),
    ),
    KnownError(
        "denied",
        "ask for the permission that the message names, or use another profile with AWS_PROFILE",
        codes=ACCESS_DENIED,
    ),
    KnownError(
        "bucket",
        CREATE_BUCKET,
        codes=frozenset({"NoSuchBucket"}),
    ),
)
"""Errors of all services; the first match counts; throttled requests are NoAnswer."""

_OTHER = KnownError("cloud", None)
_ASKED_TO_WAIT = frozenset(
    {
        *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
        *("RequestThrottledException", "TooManyRequestsException", "RequestLimitExceeded"),
        *("SlowDown", "PriorRequestNotComplete", "BandwidthLimitExceeded"),
    }
)
_FAULTS = frozenset(
    {
        *("RequestTimeout", "RequestTimeoutException", "InternalFailure", "InternalServerError"),
        *("ServiceUnavailable", "ServiceUnavailableException", "InternalServerException"),
        "InternalError",
    }
)
_FAULT_STATUSES = frozenset({500, 502, 503, 504})
# Exceptions of botocore by name, since each version of it has more of them.
_NO_CREDENTIALS = frozenset(
    {
        *("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound"),
        *("UnknownCredentialError", "InvalidConfigError"),
    }
)
_CREDENTIALS_EXPIRED = frozenset(
    {
        *("SSOTokenLoadError", "UnauthorizedSSOTokenError", "TokenRetrievalError"),
        *("CredentialRetrievalError", "LoginRefreshRequired", "LoginTokenLoadError"),
    }
)


class AwsError(RsctlError):
    """An answer of AWS that is an error, with its code."""

    def __init__(self, code: str, exit_code: ExitCode, finding: Finding) -> None:
        super().__init__(exit_code, finding)
        self.code = code


@contextmanager
def aws_errors(service: str, path: str | None, find_known: FindKnown | None) -> Iterator[None]:
    """Raise botocore's errors as NoAnswer, AwsError, or RsctlError if the call cannot be made.
    `path` is the field that led to the call.
    """
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    try:
        yield
    except exceptions.ClientError as problem:
        raise _answered(service, problem, path, find_known) from None
    except (exceptions.HTTPClientError, exceptions.ConnectionError) as problem:
        sent = not isinstance(problem, _not_connected())
        raise no_answer(service, str(problem), sent) from None
    except ResponseParserError as problem:
        raise no_answer(service, f"the answer is incomplete: {str(problem)[:200]}") from None
    except exceptions.ParamValidationError as problem:
        raise RsctlError(ExitCode.USAGE, _invalid(problem, path)) from None
    except exceptions.BotoCoreError as problem:
        raise RsctlError(ExitCode.ENVIRONMENT, _cannot_call(problem, path)) from None


def _invalid(problem: Exception, path: str | None) -> Finding:
    """A request that botocore does not send. Each version of botocore knows more fields."""
    from botocore import __version__

    upgrade = pip_install("--upgrade", "boto3")
    remedy = "correct the key that the message names; "
    remedy += f"if botocore {__version__} is older than the key, upgrade it: `{upgrade}`"
    return error("request", f"this is not a valid request for AWS: {problem}", remedy, path)


def _not_connected() -> tuple[type[Exception], ...]:
    from botocore import exceptions

    return (
        exceptions.EndpointConnectionError,
        exceptions.ConnectTimeoutError,
        exceptions.ProxyConnectionError,
    )


def _answered(
    service: str, problem: Any, path: str | None, find_known: FindKnown | None
) -> RsctlError:
    """The error for botocore's ClientError."""
    response, operation = problem.response, problem.operation_name
    body = response.get("Error", {})
    code, message = str(body.get("Code", "")), str(body.get("Message") or "no message")[:_LONGEST]
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code in _ASKED_TO_WAIT or status == 429:
        text = f"{service} asks to reduce the request rate: {message} ({code})"
        finding = error("busy", text, "wait a minute, then run the command again")
        return NoAnswer(text, ExitCode.REFUSED, finding, is_busy=True)
    if code in _FAULTS or status in _FAULT_STATUSES:
        text = f"{service} answers with a server error: {message} ({code})"
        return NoAnswer(text, ExitCode.REFUSED, error("cloud", text, "try again later"))
    if service == "s3" and code in ACCESS_DENIED and "perform: " not in message:
        message += f": it requires s3:{_PERMISSIONS.get(operation, operation)}"
    if service == "s3" and (code in _REDIRECTED or "' is wrong; expecting '" in message):
        return aws_error(code, message, path, lambda *_: _OTHER_REGION)
    return aws_error(code, message, path, find_known)


def aws_error(
    code: str, message: str, path: str | None = None, find_known: FindKnown | None = None
) -> AwsError:
    """An error of AWS as a finding with the known cause and remedy; `path` is the field it is
    about.
    """
    known = find_known and find_known(code, message)
    known = known or find_known_error(_KNOWN, message, code) or _OTHER
    text = f"{known.summary or 'AWS refuses'}: {message} ({code})"
    finding = error(known.code, text, known.remedy, known.path or path)
    return AwsError(code, known.exit_code, finding)


def _cannot_call(problem: Exception, path: str | None) -> Finding:
    """An error that prevents a request."""
    kind = type(problem).__name__
    if kind in _NO_CREDENTIALS:
        return error(NO_CREDENTIALS, f"there are no AWS credentials: {problem}", AWS_LOGIN, path)
    if kind in _CREDENTIALS_EXPIRED:
        message = f"the AWS credentials cannot be used: {problem}"
        return error("credentials-expired", message, AWS_LOGIN, path)
    if kind in ("NoRegionError", "InvalidRegionError"):
        return error(
            "region",
            f"AWS cannot be called: {problem}",
            "set a region, such as us-east-1",
            "targets.sagemaker.region",
        )
    return error("cloud", f"AWS cannot be called: {problem}", AWS_LOGIN, path)
