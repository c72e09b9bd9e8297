"""Artifact Registry: a log-in by an access token, and whether a repository exists."""

from __future__ import annotations

import warnings
from typing import Any
from urllib.parse import quote

from rsctl.clients.clients import google_request
from rsctl.clients.google import endpoint
from rsctl.clients.logins import GOOGLE_LOGIN, NO_CREDENTIALS
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.image.registry import http
from rsctl.image.registry.credentials import Login
from rsctl.image.registry.names import FIELD, GoogleRepository, Repository
from rsctl.image.registry.remedies import remedies_for

USER = "oauth2accesstoken"
"""The user's name that goes with an access token (Artifact Registry, authentication)."""

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def log_in(repository: Repository) -> Login:
    """An access token of the application default credentials. Raises RsctlError."""
    from google.auth import exceptions

    try:
        return Login(repository.host, USER, _token())
    except exceptions.DefaultCredentialsError as problem:
        message = f"no Google Cloud credentials for {repository.host}: {_first(problem)}"
        raise _environment(NO_CREDENTIALS, message, GOOGLE_LOGIN) from None
    except exceptions.RefreshError as problem:
        raise _not_refreshed(repository, problem) from None
    except exceptions.GoogleAuthError as problem:
        message = f"Google's log-in service could not be asked: {_first(problem)}"
        raise _environment("network", message, "check the network and try again") from None


def _token() -> str:
    import google.auth

    with warnings.catch_warnings():
        # It warns of a user's credentials without a quota project, which a registry never asks.
        warnings.simplefilter("ignore")
        credentials: Any
        credentials, _ = google.auth.default(scopes=[_SCOPE])
        credentials.refresh(google_request())
    return str(credentials.token)


def _not_refreshed(repository: Repository, problem: Exception) -> RsctlError:
    if "PERMISSION_DENIED" in str(problem):
        message = f"Google Cloud gives no access token: {_first(problem)}"
        remedy = "ask for roles/iam.serviceAccountTokenCreator on the service account"
        return RsctlError(ExitCode.REFUSED, error("denied", message, remedy, FIELD))
    message = f"the Google Cloud credentials for {repository.host} have expired: {_first(problem)}"
    return _environment("credentials-expired", message, GOOGLE_LOGIN)


def require_repository(repository: Repository, login: Login) -> None:
    """Raise RsctlError (refused) if Artifact Registry says that the repository is not there.

    It is not created here: where it is, how long it keeps images and who pays is its owner's
    choice. Where it may not be looked up, the push itself fails.
    """
    wanted = repository.google
    if wanted is None:
        return
    answer = http.request("GET", _resource(wanted), http.BearerAuth(login.secret))
    if answer.status == 404:
        message = f"Artifact Registry has no repository {wanted.name!r} in {_location(wanted)}"
        finding = error("repository-missing", message, remedies_for(repository).create, FIELD)
        raise RsctlError(ExitCode.REFUSED, finding)
    found = answer.json().get("format") if answer.status == 200 else None
    if found not in (None, "DOCKER"):
        message = (
            f"repository {wanted.name!r} in {_location(wanted)} is for {found}, not for images"
        )
        remedy = "name a repository of the format docker"
        raise RsctlError(ExitCode.REFUSED, error("repository-format", message, remedy, FIELD))


def _resource(wanted: GoogleRepository) -> str:
    names = (quote(part, safe=":") for part in (wanted.project, wanted.location, wanted.name))
    project, location, name = names
    path = f"v1/projects/{project}/locations/{location}/repositories/{name}"
    return f"{endpoint('artifactregistry')}/{path}"


def _location(wanted: GoogleRepository) -> str:
    return f"project {wanted.project}, location {wanted.location}"


def _first(problem: Exception) -> str:
    """The sentence of an error of google-auth, which may also carry a whole response."""
    return str(problem.args[0]) if problem.args else type(problem).__name__


def _environment(code: str, message: str, remedy: str) -> RsctlError:
    return RsctlError(ExitCode.ENVIRONMENT, error(code, message, remedy, FIELD))
