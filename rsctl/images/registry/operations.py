"""Login, lookup and preparation of a repository, for all kinds of registries."""

from __future__ import annotations

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import NO_CREDENTIALS
from rsctl.findings import RsctlError
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import Kind, Repository, parse_reference, parse_repository


def login_for(repository: str, endpoints: Endpoints | None = None) -> Login | None:
    """The credentials for a push to `HOST/PATH`; None to use docker's stored ones.

    That is so for registries of no cloud, and where cloud credentials are missing while docker
    has a log-in of its own, as after `gcloud auth configure-docker`. A log-in lasts an hour
    (Google) or twelve (Amazon): make it right before the push, not before a long build.
    `endpoints` are those of the environment if they are left out, as below.

    Raises RsctlError: environment (no credentials, expired ones, no network), refused (a
    permission is missing), usage (not a repository's name).
    """
    parsed = parse_repository(repository)
    try:
        return _cloud_login(parsed, endpoints or Endpoints.of_environment())
    except RsctlError as problem:
        if problem.findings[0].code == NO_CREDENTIALS and _stored_login(parsed):
            return None
        raise


def find_pushed(
    reference: str, login: Login | None, endpoints: Endpoints | None = None
) -> str | None:
    """The digest of `REPOSITORY:TAG` if the registry has it, without pulling anything.

    `login` is what `login_for` gave; with None, docker's stored log-in is looked up. Raises
    RsctlError: refused (no right to read), environment (no log-in, no answer), usage (the name).
    """
    repository, tag = parse_reference(reference)
    if login and repository.kind is Kind.ECR:
        from rsctl.targets.sagemaker import registry as aws

        return aws.find_digest(repository, tag, endpoints or Endpoints.of_environment())
    from rsctl.images.registry import api

    return api.find_digest(repository, tag, login or _stored_login(repository))


def ensure_repository(
    repository: str, login: Login | None, endpoints: Endpoints | None = None
) -> None:
    """See that the repository `HOST/PATH` exists, so that a push can succeed.

    A repository of ECR is created. One of Artifact Registry is not: if it is missing, the finding
    has the command. Other registries create by pushing, or refuse the push. Raises RsctlError.
    """
    parsed = parse_repository(repository)
    if login is None:
        return
    endpoints = endpoints or Endpoints.of_environment()
    if parsed.kind is Kind.ECR:
        from rsctl.targets.sagemaker import registry as aws

        aws.ensure_repository(parsed, endpoints)
    elif parsed.kind is Kind.GOOGLE:
        from rsctl.targets.vertex import registry as google_cloud

        google_cloud.require_repository(parsed, login, endpoints)


def _cloud_login(repository: Repository, endpoints: Endpoints) -> Login | None:
    # The clouds' modules are imported here: they bring the clouds' libraries.
    if repository.kind is Kind.GOOGLE:
        from rsctl.targets.vertex import registry as google_cloud

        return google_cloud.log_in(repository, endpoints)
    if repository.kind in (Kind.ECR, Kind.ECR_PUBLIC):
        from rsctl.targets.sagemaker import registry as aws

        return aws.log_in(repository, endpoints)
    return None


def _stored_login(repository: Repository) -> Login | None:
    from rsctl.images.registry.stored_logins import stored_login

    return stored_login(repository)
