"""Amazon ECR: login, the repository, and the digest of a tag."""

from __future__ import annotations

import base64

from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import ACCESS_DENIED, AwsError
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.retries import RetryPolicy
from rsctl.images.registry import api
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import FIELD, ImageRepository, Kind
from rsctl.images.registry.remedies import remedies_for
from rsctl.known_errors import KnownError

PUBLIC_REGION = "us-east-1"
"""The only region that answers for ECR Public (Amazon ECR Public, registry authentication)."""

_TRIES = 3


class EcrClient:
    """See RegistryClient. ECR Public differs from other registries only in its login."""

    def log_in(self, repository: ImageRepository, endpoints: Endpoints) -> Login:
        """The user and password that ECR gives for twelve hours."""
        is_public = repository.kind is Kind.ECR_PUBLIC
        service = "ecr-public" if is_public else "ecr"
        aws = _registry(repository, endpoints)
        answer = aws.request(service, "get_authorization_token", member="authorizationData")
        data = answer["authorizationData"] if is_public else answer["authorizationData"][0]
        user, _, secret = base64.b64decode(data["authorizationToken"]).decode().partition(":")
        return Login(repository.host, user, secret)

    def find_digest(
        self, repository: ImageRepository, tag: str, login: Login, endpoints: Endpoints
    ) -> str | None:
        """See RegistryClient."""
        ecr = repository.ecr
        if ecr is None:
            return api.find_digest(repository, tag, login)
        wanted = {
            "registryId": ecr.account,
            "repositoryName": repository.path,
            "imageIds": [{"imageTag": tag}],
        }
        try:
            found = _registry(repository, endpoints).request("ecr", "describe_images", wanted)
        except AwsError as problem:
            if problem.code in ("RepositoryNotFoundException", "ImageNotFoundException"):
                return None
            raise
        digests = [image.get("imageDigest") for image in found.get("imageDetails", [])]
        return next(filter(None, digests), None)

    def ensure_repository(
        self, repository: ImageRepository, login: Login, endpoints: Endpoints
    ) -> None:
        """Create it in ECR if it does not exist; ECR Public refuses the push."""
        ecr = repository.ecr
        if ecr is None:
            return
        aws = _registry(repository, endpoints)
        wanted = {"registryId": ecr.account, "repositoryNames": [repository.path]}
        try:
            aws.request("ecr", "describe_repositories", wanted)
        except AwsError as problem:
            if problem.code != "RepositoryNotFoundException":
                raise
            _create(aws, ecr.account, repository.path)


CLIENT = EcrClient()


def _registry(repository: ImageRepository, endpoints: Endpoints) -> Aws:
    """AWS in the registry's own region."""
    ecr = repository.ecr

    def find_known(code: str, message: str) -> KnownError | None:
        if code not in ACCESS_DENIED:
            return None
        push = remedies_for(repository).ask_to_push
        remedy = f"ask for the action that it names on {repository.path}; {push}"
        return KnownError("denied", remedy, summary=f"AWS denies all calls for {repository}")

    return Aws(
        endpoints,
        ecr.region if ecr else PUBLIC_REGION,
        FIELD,
        find_known,
        RetryPolicy.of(endpoints, _TRIES),
        use_fips=bool(ecr and ecr.is_fips) or None,
    )


def _create(aws: Aws, account: str, path: str) -> None:
    try:
        aws.request("ecr", "create_repository", {"registryId": account, "repositoryName": path})
    except AwsError as problem:
        # Another job has created it at the same time.
        if problem.code != "RepositoryAlreadyExistsException":
            raise
