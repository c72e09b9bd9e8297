"""A short-lived log-in to a registry, made from the cloud credentials of this machine."""

from __future__ import annotations

from rsctl.clients.logins import NO_CREDENTIALS
from rsctl.findings import RsctlError
from rsctl.image.registry.credentials import Login
from rsctl.image.registry.names import Kind, Repository, parse_repository


def login_for(repository: str) -> Login | None:
    """The log-in for a push to `HOST/PATH`; None where docker's own stored one is to be used.

    That is so for registries of no cloud, and where cloud credentials are missing while docker
    has a log-in of its own, as after `gcloud auth configure-docker`. A log-in lasts an hour
    (Google) or twelve (Amazon): make it right before the push, not before a long build.

    Raises RsctlError: environment (no credentials, expired ones, no network), refused (a
    permission is missing), usage (not a repository's name).
    """
    place = parse_repository(repository)
    try:
        return _log_in(place)
    except RsctlError as problem:
        if problem.findings[0].code == NO_CREDENTIALS and _is_stored(place):
            return None
        raise


def _log_in(place: Repository) -> Login | None:
    # The rooms of the clouds are imported here: they bring the clouds' libraries.
    if place.kind is Kind.GOOGLE:
        from rsctl.image.registry import google_cloud

        return google_cloud.log_in(place)
    if place.kind in (Kind.ECR, Kind.ECR_PUBLIC):
        from rsctl.image.registry import aws

        return aws.log_in(place)
    return None


def _is_stored(place: Repository) -> bool:
    from rsctl.image.registry.stored import stored_login

    return stored_login(place) is not None
