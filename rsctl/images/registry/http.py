"""HTTP requests to a registry, which is not trusted: bounded, without redirects or .netrc."""

from __future__ import annotations

import glob
import json
import os
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rsctl.clients.sessions import connection_problem, http_session
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.registry.names import FIELD
from rsctl.runs.stream.sanitize import sanitize_line
from rsctl.user_folders import home_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    import requests

LARGEST = 4 << 20
"""The most bytes of an answer that are read: a manifest may have no more (OCI distribution)."""

_TIMEOUT = (10.0, 20.0)
_DEADLINE = 60.0
_LONGEST_REASON = 500  # characters
AUTHORITIES = (
    *("/etc/docker/certs.d", ".config/docker/certs.d"),
    *("/etc/containers/certs.d", ".config/containers/certs.d"),
)
"""The folders, from the user's home, with a folder of certificates for each registry, by its host
and port.
"""

BUSY = 429
"""The status of an answer to one request of too many."""

_RETRIED = (BUSY, 500, 502, 503, 504)
_NO_TLS = ("WRONG_VERSION_NUMBER", "wrong version number", "record layer failure")
"""The texts of OpenSSL for an answer in plain HTTP, by its version."""


@dataclass(frozen=True)
class BasicAuth:
    """A user and a password in the header; `basic` is the pair as HTTP writes it."""

    basic: str = field(repr=False)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Sign a request; this is the form that requests takes for `auth`."""
        request.headers["Authorization"] = f"Basic {self.basic}"
        return request


@dataclass(frozen=True)
class BearerAuth:
    """A bearer token in the header."""

    token: str = field(repr=False)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Sign a request; this is the form that requests takes for `auth`."""
        request.headers["Authorization"] = f"Bearer {self.token}"
        return request


def no_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Disables credentials; without this, requests would look for some in the user's .netrc."""
    return request


@dataclass(frozen=True)
class Answer:
    """The answer, with any status."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as an object, empty if it is not one."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def reason(self) -> str:
        """The server's own words about a refusal, after a colon; empty if it says nothing.

        They are in `errors` (OCI distribution), `error_description` (OAuth 2), or `details` (Docker
        Hub).
        """
        found = self.json()
        errors = found.get("errors")
        first = errors[0] if isinstance(errors, list) and errors else None
        said = first.get("message") if isinstance(first, dict) else None
        said = said or found.get("error_description") or found.get("details")
        text = sanitize_line(said[:_LONGEST_REASON]).strip() if isinstance(said, str) else ""
        return text and f": {text}"


def request(
    method: str,
    url: str,
    auth: Any = no_auth,
    headers: Mapping[str, str] | None = None,
    data: Mapping[str, str] | None = None,
) -> Answer:
    """Send a request, with retries if the server is busy; the answer, up to `LARGEST` bytes.

    Raises RsctlError (environment) if no answer comes, the certificate is wrong, or the answer
    takes longer than a minute or is too large.
    """
    import requests

    host, refused = urlsplit(url).netloc, None
    for authority in _authorities(host):
        try:
            with (
                _session() as session,
                session.request(
                    method,
                    url,
                    auth=auth,
                    headers=dict(headers or {}),
                    data=data,
                    timeout=_TIMEOUT,
                    allow_redirects=False,
                    stream=True,
                    verify=authority,
                ) as response,
            ):
                return Answer(response.status_code, response.headers, _read(response, host))
        except requests.exceptions.SSLError as problem:
            refused = refused or _no_answer(host, problem)
        except requests.exceptions.RequestException as problem:
            raise _no_answer(host, problem) from None
    raise refused or AssertionError


def _authorities(host: str) -> list[str | bool]:
    """The usual authorities, and files with those that docker and podman trust for a registry."""
    folders = (glob.escape(str(home_folder() / folder / host)) for folder in AUTHORITIES)
    files = (file for folder in folders for file in sorted(glob.glob(f"{folder}/*.crt")))
    return [True, *filter(os.path.isfile, files)]


def _no_answer(host: str, problem: Exception) -> RsctlError:
    reason = connection_problem(problem)
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        message = f"the certificate of {host} is not trusted: {reason}"
        remedy = (
            "put the certificate of the authority that signed it into "
            f"/etc/docker/certs.d/{host}/ca.crt: docker and rsctl read it there"
        )
        return _environment("certificate", message, remedy)
    if any(text in reason for text in _NO_TLS):
        remedy = "give it a certificate: rsctl uses plain HTTP only on this machine"
        return _environment("registry-plain", f"{host} does not support TLS", remedy)
    message = f"{host} does not answer: {reason}"
    remedy = "check the network, a proxy (HTTPS_PROXY), and the host of image.repository"
    return _environment("registry-unreachable", message, remedy)


def _session() -> requests.Session:
    import ssl

    session = http_session(
        total=3,
        connect=1,
        read=1,
        other=0,
        backoff_factor=0.3,
        backoff_jitter=0.3,
        status_forcelist=_RETRIED,
        raise_on_status=False,
        respect_retry_after_header=False,
    )
    # Docker trusts any given certificate: of an authority without key usage, which urllib3 refuses
    # from Python 3.13 on, and one that another has signed.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    adapter: Any = session.adapters["https://"]
    adapter.init_poolmanager(1, 1, ssl_context=context)
    adapter.proxy_manager_for = partial(adapter.proxy_manager_for, ssl_context=context)
    return session


def _read(response: requests.Response, host: str) -> bytes:
    body = b""
    end = time.monotonic() + _DEADLINE
    for block in response.iter_content(1 << 16):
        body += block
        if len(body) > LARGEST or time.monotonic() > end:
            message = f"{host} sends an answer that does not end"
            raise _environment("registry-answer", message, "check the host of image.repository")
    return body


def busy(host: str) -> RsctlError:
    """The error for a registry that still answers with `BUSY` after the retries."""
    message = f"{host} received too many requests (HTTP status {BUSY})"
    return _environment("registry-busy", message, "try again later")


def _environment(code: str, message: str, remedy: str) -> RsctlError:
    return RsctlError(ExitCode.ENVIRONMENT, error(code, message, remedy, FIELD))
