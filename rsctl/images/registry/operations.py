"""Login, lookup and preparation of a repository, for all kinds of registries."""

from __future__ import annotations

import re

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import NO_CREDENTIALS
from rsctl.findings import RsctlError
from rsctl.images.registry.client import RegistryClient
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import ImageRepository, parse_reference, parse_repository
from rsctl.target_info import all_targets, import_object


def login_for(repository: str) -> Login | None:
    """The credentials for a push to `HOST/PATH`; None to use docker's stored ones.

    That applies to registries outside the clouds, and if cloud credentials are missing but docker
    has its own login, as after `gcloud auth configure-docker`. A login is valid for one hour
    (Google) or twelve hours (Amazon): make it immediately before the push, not before a long build.

    Raises RsctlError: environment (no credentials, expired ones, no network), refused (a
    permission is missing), usage (not a repository's name).
    """
    parsed = parse_repository(repository)
    try:
        return _cloud_login(parsed)
    except RsctlError as problem:
        if problem.findings[0].code == NO_CREDENTIALS and _stored_login(parsed):
            return None
        raise


def find_pushed(reference: str, login: Login | None) -> str | None:
    """The digest of `REPOSITORY:TAG` if the registry has it, without pulling anything.

    `login` is the result of `login_for`; with None, docker's stored login is looked up. Raises
    RsctlError: refused (no right to read), environment (no login, no answer), usage (the name).
    """
    repository, tag = parse_reference(reference)
    client = _client_of(repository)
    if login and client:
        return client.find_digest(repository, tag, login, Endpoints.of_environment())
    from rsctl.images.registry import api

    return api.find_digest(repository, tag, login or _stored_login(repository))


def ensure_repository(repository: str, login: Login | None) -> None:
    """See that the repository `HOST/PATH` exists, so that a push can succeed.

    A repository of ECR is created. One of Artifact Registry is not: if it is missing, the finding
    has the command. Other registries create by pushing, or refuse the push. Raises RsctlError.
    """
    parsed = parse_repository(repository)
    client = _client_of(parsed)
    if login and client:
        client.ensure_repository(parsed, login, Endpoints.of_environment())


def _cloud_login(repository: ImageRepository) -> Login | None:
    client = _client_of(repository)
    return client.log_in(repository, Endpoints.of_environment()) if client else None


def _client_of(repository: ImageRepository) -> RegistryClient | None:
    """The client of the cloud whose registry it is; None if it is not a cloud's."""
    for info in all_targets():
        if info.registry and re.fullmatch(info.registry.hosts, repository.host):
            client: RegistryClient = import_object(info.registry.client)
            return client
    return None


def _stored_login(repository: ImageRepository) -> Login | None:
    from rsctl.images.registry.stored_logins import stored_login

    return stored_login(repository)
