"""Amazon's registries: log-in, the repository, and the digest behind a tag, through boto3."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

from rsctl.clients.clients import aws_client, aws_session
from rsctl.clients.logins import AWS_LOGIN, NO_CREDENTIALS
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.image.registry.access import access_to
from rsctl.image.registry.credentials import Login
from rsctl.image.registry.names import FIELD, Ecr, Kind, Repository

PUBLIC_REGION = "us-east-1"
"""The only region that answers for ECR Public (Amazon ECR Public, registry authentication)."""

_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
_UNKNOWN = {
    *("UnrecognizedClientException", "InvalidClientTokenId", "InvalidAccessKeyId"),
    *("InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignature"),
}
_DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
# By name, since each version of botocore has more of them.
_MISSING = {
    *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"),
    *("ProfileNotFound", "UnknownCredentialError", "InvalidConfigError"),
}
_RUN_OUT = {
    *("SSOTokenLoadError", "UnauthorizedSSOTokenError", "TokenRetrievalError"),
    *("LoginRefreshRequired", "LoginTokenLoadError"),
}


def log_in(place: Repository) -> Login:
    """The user and password that ECR gives for twelve hours. Raises RsctlError."""
    if place.kind is Kind.ECR_PUBLIC:
        data = _call(place, "get_authorization_token")["authorizationData"]
    else:
        data = _call(place, "get_authorization_token")["authorizationData"][0]
    user, _, secret = base64.b64decode(data["authorizationToken"]).decode().partition(":")
    return Login(place.host, user, secret)


def have_repository(place: Repository) -> None:
    """Create the repository in ECR if it is not there. Raises RsctlError."""
    ecr = place.ecr
    if ecr is None:
        return
    try:
        _call(
            place,
            "describe_repositories",
            registryId=ecr.account,
            repositoryNames=[place.path],
        )
    except _Answered as problem:
        if problem.code != "RepositoryNotFoundException":
            raise
        _create(place, ecr)


def _create(place: Repository, ecr: Ecr) -> None:
    try:
        _call(place, "create_repository", registryId=ecr.account, repositoryName=place.path)
    except _Answered as problem:
        # Another job had the same idea at the same time.
        if problem.code != "RepositoryAlreadyExistsException":
            raise


def find_digest(place: Repository, tag: str) -> str | None:
    """The digest behind a tag of a private repository, or None. Raises RsctlError."""
    ecr = place.ecr
    if ecr is None:
        return None
    with suppress(_NotThere):
        found = _call(
            place,
            "describe_images",
            registryId=ecr.account,
            repositoryName=place.path,
            imageIds=[{"imageTag": tag}],
        )
        digests = [image.get("imageDigest") for image in found.get("imageDetails", [])]
        return next(filter(None, digests), None)
    return None


class _Answered(RsctlError):
    """The service answered with an error; `code` is its name for it."""

    def __init__(self, exit_code: ExitCode, finding: Finding, code: str) -> None:
        super().__init__(exit_code, finding)
        self.code = code


class _NotThere(_Answered):
    """The image, or the repository that would have it, does not exist."""


def _call(place: Repository, operation: str, **arguments: Any) -> dict[str, Any]:
    """One call of the registry's own service, in its region. Raises RsctlError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer: dict[str, Any] = getattr(_client(place), operation)(**arguments)
        return answer
    except ClientError as problem:
        raise _refused(place, problem.response.get("Error", {}), problem) from None
    except BotoCoreError as problem:
        raise _not_asked(place, problem) from None


def _client(place: Repository) -> Any:
    ecr = place.ecr
    return aws_client(
        aws_session(ecr.region if ecr else PUBLIC_REGION),
        "ecr" if ecr else "ecr-public",
        connect_timeout=10,
        read_timeout=30,
        retries={"mode": "standard", "max_attempts": 3},
        use_fips_endpoint=bool(ecr and ecr.is_fips) or None,
    )


def _refused(place: Repository, said: dict[str, str], problem: Exception) -> RsctlError:
    code, text = said.get("Code", ""), said.get("Message") or str(problem)
    if code in _EXPIRED:
        return _environment("credentials-expired", f"the AWS credentials have expired: {text}")
    if code in _UNKNOWN:
        return _environment("credentials", f"AWS does not know these credentials: {text}")
    if code in _DENIED:
        access = access_to(place)
        remedy = f"ask for the action that it names on {place.path}; {access.ask_to_push}"
        message = f"AWS permits no work with {place}: {text}"
        return _Answered(ExitCode.REFUSED, error("denied", message, remedy, FIELD), code)
    finding = error("ecr", f"Amazon ECR refuses {place}: {text} ({code})", None, FIELD)
    missing = code in ("RepositoryNotFoundException", "ImageNotFoundException")
    return (_NotThere if missing else _Answered)(ExitCode.REFUSED, finding, code)


def _not_asked(place: Repository, problem: Exception) -> RsctlError:
    kind = type(problem).__name__
    if kind in _MISSING:
        return _environment(NO_CREDENTIALS, f"no AWS credentials for {place.host}: {problem}")
    if kind in _RUN_OUT:
        return _environment("credentials-expired", f"the AWS log-in has expired: {problem}")
    remedy = "check the network and the region in image.repository, and try again"
    message = f"Amazon ECR could not be asked about {place}: {problem}"
    return RsctlError(ExitCode.ENVIRONMENT, error("network", message, remedy, FIELD))


def _environment(code: str, message: str) -> RsctlError:
    return RsctlError(ExitCode.ENVIRONMENT, error(code, message, AWS_LOGIN, FIELD))
