"""The digest of a tag, by the HTTP API of all registries (OCI distribution specification, v2)."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from rsctl.clients.private import without_secrets
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.registry import http
from rsctl.images.registry.challenge import authorization
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import DOCKER_HUB, FIELD, ImageRepository
from rsctl.images.registry.remedies import remedies_for

DIGEST = re.compile("sha256:[0-9a-f]{64}")
"""A digest."""

_ACCEPT = ", ".join(
    (
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.index.v1+json",
    )
)

_EXPLAINED = (400, 403, 412)
_LONGEST_LOCATION = 200  # characters


def find_digest(repository: ImageRepository, tag: str, login: Login | None) -> str | None:
    """The digest of the manifest that a tag names, or None if there is no such tag.

    Raises RsctlError: refused (no right to read there), environment (no login, no answer).
    """
    url = f"{_base_url(repository)}/manifests/{tag}"
    answer = http.request("HEAD", url, headers={"Accept": _ACCEPT})
    auth: Any = http.no_auth
    if answer.status == 401:
        auth = authorization(repository, answer.headers.get("WWW-Authenticate", ""), login)
        answer = http.request("HEAD", url, auth, headers={"Accept": _ACCEPT})
    if answer.status in _EXPLAINED:  # an answer to HEAD has no body
        answer = http.request("GET", url, auth, headers={"Accept": _ACCEPT})
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise _refused(repository, answer, auth, login)
    found = answer.headers.get("Docker-Content-Digest", "")
    return found if DIGEST.fullmatch(found) else _computed_digest(repository, url, auth, login)


def _base_url(repository: ImageRepository) -> str:
    host, path = repository.host, repository.path
    if host == DOCKER_HUB:
        host, path = "registry-1.docker.io", path if "/" in path else f"library/{path}"
    return f"{'http' if repository.is_loopback else 'https'}://{host}/v2/{path}"


def _computed_digest(repository: ImageRepository, url: str, auth: Any, login: Login | None) -> str:
    """The digest of the manifest itself, for a registry that does not send it as a header."""
    answer = http.request("GET", url, auth, headers={"Accept": _ACCEPT})
    if answer.status != 200:
        raise _refused(repository, answer, auth, login)
    return f"sha256:{hashlib.sha256(answer.body).hexdigest()}"


def _refused(
    repository: ImageRepository, answer: http.Answer, auth: Any, login: Login | None
) -> RsctlError:
    remedies, status = remedies_for(repository), answer.status
    if status == 401 and login is None:
        message = f"{repository.host} requires credentials, and there are none"
        return _problem(ExitCode.ENVIRONMENT, "login-missing", message, remedies.log_in)
    # The registry issued a token for these credentials, so a permission is missing.
    is_known = isinstance(auth, http.BearerAuth)
    if login and status == 401 and not is_known:
        message = f"{repository.host} does not accept the credentials of {login.user!r}"
        return _problem(ExitCode.REFUSED, "login-refused", message, remedies.log_in)
    if status in (401, 403):
        message = f"{repository.host} gives no read permission for {repository.path}{answer.reason}"
        return _problem(ExitCode.REFUSED, "denied", message, remedies.ask_to_read)
    if status == http.BUSY:
        return http.busy(repository.host)
    location = without_secrets(answer.headers.get("Location", ""))[:_LONGEST_LOCATION]
    message = (
        f"{repository.host} answers with HTTP status {status} to a request for {repository.path}"
        + (f": it leads to {location}" if location else answer.reason)
    )
    remedy = "try again later, and check the host of image.repository"
    return _problem(ExitCode.ENVIRONMENT, "registry-answer", message, remedy)


def _problem(exit_code: ExitCode, code: str, message: str, remedy: str) -> RsctlError:
    return RsctlError(exit_code, error(code, message, remedy, FIELD))
