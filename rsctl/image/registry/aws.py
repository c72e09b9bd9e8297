"""Amazon ECR: log-in, the repository, and the digest of a tag, by boto3."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

from rsctl.clients.clients import aws_client, aws_session
from rsctl.clients.logins import AWS_LOGIN, NO_CREDENTIALS
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.image.registry.credentials import Login
from rsctl.image.registry.names import FIELD, Ecr, Kind, Repository
from rsctl.image.registry.remedies import remedies_for

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


def log_in(repository: Repository) -> Login:
    """The user and password that ECR gives for twelve hours. Raises RsctlError."""
    if repository.kind is Kind.ECR_PUBLIC:
        data = _call(repository, "get_authorization_token")["authorizationData"]
    else:
        data = _call(repository, "get_authorization_token")["authorizationData"][0]
    user, _, secret = base64.b64decode(data["authorizationToken"]).decode().partition(":")
    return Login(repository.host, user, secret)


def ensure_repository(repository: Repository) -> None:
    """Create the repository in ECR if it is not there. Raises RsctlError."""
    ecr = repository.ecr
    if ecr is None:
        return
    try:
        _call(
            repository,
            "describe_repositories",
            registryId=ecr.account,
            repositoryNames=[repository.path],
        )
    except _Refused as problem:
        if problem.code != "RepositoryNotFoundException":
            raise
        _create(repository, ecr)


def _create(repository: Repository, ecr: Ecr) -> None:
    try:
        _call(
            repository, "create_repository", registryId=ecr.account, repositoryName=repository.path
        )
    except _Refused as problem:
        # Another job has created it at the same time.
        if problem.code != "RepositoryAlreadyExistsException":
            raise


def find_digest(repository: Repository, tag: str) -> str | None:
    """The digest behind a tag of a private repository, or None. Raises RsctlError."""
    ecr = repository.ecr
    if ecr is None:
        return None
    with suppress(_NotFound):
        found = _call(
            repository,
            "describe_images",
            registryId=ecr.account,
            repositoryName=repository.path,
            imageIds=[{"imageTag": tag}],
        )
        digests = [image.get("imageDigest") for image in found.get("imageDetails", [])]
        return next(filter(None, digests), None)
    return None


class _Refused(RsctlError):
    """The service answered with an error; `code` is its name for it."""

    def __init__(self, exit_code: ExitCode, finding: Finding, code: str) -> None:
        super().__init__(exit_code, finding)
        self.code = code


class _NotFound(_Refused):
    """The image, or the repository that would have it, does not exist."""


def _call(repository: Repository, operation: str, **arguments: Any) -> dict[str, Any]:
    """One call of the registry's own service, in its region. Raises RsctlError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer: dict[str, Any] = getattr(_client(repository), operation)(**arguments)
        return answer
    except ClientError as problem:
        raise _refused(repository, problem.response.get("Error", {}), problem) from None
    except BotoCoreError as problem:
        raise _not_sent(repository, problem) from None


def _client(repository: Repository) -> Any:
    ecr = repository.ecr
    return aws_client(
        aws_session(ecr.region if ecr else PUBLIC_REGION),
        "ecr" if ecr else "ecr-public",
        connect_timeout=10,
        read_timeout=30,
        retries={"mode": "standard", "max_attempts": 3},
        use_fips_endpoint=bool(ecr and ecr.is_fips) or None,
    )


def _refused(repository: Repository, answer: dict[str, str], problem: Exception) -> RsctlError:
    code, text = answer.get("Code", ""), answer.get("Message") or str(problem)
    if code in _EXPIRED:
        return _environment("credentials-expired", f"the AWS credentials have expired: {text}")
    if code in _UNKNOWN:
        return _environment("credentials", f"AWS does not know these credentials: {text}")
    if code in _DENIED:
        remedies = remedies_for(repository)
        remedy = f"ask for the action that it names on {repository.path}; {remedies.ask_to_push}"
        message = f"AWS permits no call about {repository}: {text}"
        return _Refused(ExitCode.REFUSED, error("denied", message, remedy, FIELD), code)
    finding = error("ecr", f"Amazon ECR refuses {repository}: {text} ({code})", None, FIELD)
    missing = code in ("RepositoryNotFoundException", "ImageNotFoundException")
    return (_NotFound if missing else _Refused)(ExitCode.REFUSED, finding, code)


def _not_sent(repository: Repository, problem: Exception) -> RsctlError:
    kind = type(problem).__name__
    if kind in _MISSING:
        return _environment(NO_CREDENTIALS, f"no AWS credentials for {repository.host}: {problem}")
    if kind in _RUN_OUT:
        return _environment("credentials-expired", f"the AWS log-in has expired: {problem}")
    remedy = "check the network and the region in image.repository, and try again"
    message = f"Amazon ECR could not be asked about {repository}: {problem}"
    return RsctlError(ExitCode.ENVIRONMENT, error("network", message, remedy, FIELD))


def _environment(code: str, message: str) -> RsctlError:
    return RsctlError(ExitCode.ENVIRONMENT, error(code, message, AWS_LOGIN, FIELD))
