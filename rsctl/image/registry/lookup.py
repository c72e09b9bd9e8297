"""What a registry has, whichever it is, and what it must have before a push."""

from __future__ import annotations

from rsctl.image.registry.credentials import Login
from rsctl.image.registry.names import Kind, Repository, parse_reference, parse_repository


def find_pushed(reference: str, login: Login | None) -> str | None:
    """The digest of `REPOSITORY:TAG` if the registry has it, without pulling anything.

    `login` is what `login_for` gave; with None, docker's stored log-in is looked up. Raises
    RsctlError: refused (no right to look), environment (no log-in, no answer), usage (the name).
    """
    place, tag = parse_reference(reference)
    if login and place.kind is Kind.ECR:
        from rsctl.image.registry import aws

        return aws.find_digest(place, tag)
    from rsctl.image.registry import api

    return api.find_digest(place, tag, login or _stored(place))


def ensure_repository(repository: str, login: Login | None) -> None:
    """See that a push to `HOST/PATH` has somewhere to go.

    A repository of ECR is created. One of Artifact Registry is not: if it is missing, the finding
    has the command. Other registries create by pushing, or refuse the push. Raises RsctlError.
    """
    place = parse_repository(repository)
    if login is None:
        return
    if place.kind is Kind.ECR:
        from rsctl.image.registry import aws

        aws.have_repository(place)
    elif place.kind is Kind.GOOGLE:
        from rsctl.image.registry import google_cloud

        google_cloud.require_repository(place, login)


def _stored(place: Repository) -> Login | None:
    from rsctl.image.registry.stored import stored_login

    return stored_login(place)
