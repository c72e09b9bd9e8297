"""Artifact Registry: login with an access token, and whether a repository exists."""

from __future__ import annotations

from urllib.parse import quote

from msgspec.structs import replace

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.google import google_credentials, renew
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.registry import api, http
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import FIELD, GoogleRepository, ImageRepository
from rsctl.images.registry.remedies import remedies_for

USER = "oauth2accesstoken"
"""The user's name that goes with an access token (Artifact Registry, authentication)."""


class ArtifactRegistryClient:
    """See RegistryClient."""

    def log_in(self, repository: ImageRepository, endpoints: Endpoints) -> Login:
        """An access token of the user's credentials."""
        try:
            credentials = google_credentials(endpoints)
            renew(credentials, endpoints)
        except RsctlError as problem:
            findings = [replace(finding, path=FIELD) for finding in problem.findings]
            raise RsctlError(problem.exit_code, *findings) from None
        return Login(repository.host, USER, str(credentials.token))

    def find_digest(
        self, repository: ImageRepository, tag: str, login: Login, endpoints: Endpoints
    ) -> str | None:
        """See RegistryClient."""
        return api.find_digest(repository, tag, login)

    def ensure_repository(
        self, repository: ImageRepository, login: Login, endpoints: Endpoints
    ) -> None:
        """Raise RsctlError (refused) if Artifact Registry reports that it does not exist.

        rsctl does not create it: its owner decides on location, retention and billing. Without
        permission to look it up, the push itself fails.
        """
        wanted = repository.google
        if wanted is None:
            return
        answer = http.request("GET", _resource(wanted, endpoints), http.BearerAuth(login.secret))
        where = f"project {wanted.project}, location {wanted.location}"
        if answer.status == 404:
            message = f"Artifact Registry has no repository {wanted.name!r} in {where}"
            finding = error("repository-missing", message, remedies_for(repository).create, FIELD)
            raise RsctlError(ExitCode.REFUSED, finding)
        found = answer.json().get("format") if answer.status == 200 else None
        if found not in (None, "DOCKER"):
            message = f"repository {wanted.name!r} in {where} is for {found}, not for images"
            remedy = "use a repository of the format docker"
            raise RsctlError(ExitCode.REFUSED, error("repository-format", message, remedy, FIELD))


CLIENT = ArtifactRegistryClient()


def _resource(wanted: GoogleRepository, endpoints: Endpoints) -> str:
    parts = (wanted.project, wanted.location, wanted.name)
    project, location, name = (quote(part, safe=":") for part in parts)
    path = f"v1/projects/{project}/locations/{location}/repositories/{name}"
    return f"{endpoints.google_url('artifactregistry')}/{path}"
