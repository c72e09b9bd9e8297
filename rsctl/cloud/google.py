"""Calls to Google's REST services: credentials, endpoints, retries, and what to say of an error.

Endpoints can be replaced as gcloud's can, by CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBUILD and
CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE, the latter also by the client libraries' own
STORAGE_EMULATOR_HOST.
"""

from __future__ import annotations

import ipaddress
import os
import warnings
from typing import Any
from urllib.parse import urlsplit

from rsctl.cloud.google_errors import refused
from rsctl.cloud.logins import GOOGLE_LOGIN, NO_CREDENTIALS
from rsctl.cloud.pace import Pace
from rsctl.findings import ExitCode, RsctlError, error

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_TIMEOUT = (10.0, 120.0)  # to connect, and between two bytes, in seconds


class Lost(Exception):
    """No answer came: whether the call was carried out is not known."""


class Google:
    """A session with the user's default credentials. It logs in with its first call."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._session: Any = None

    def call(
        self,
        method: str,
        url: str,
        ok: tuple[int, ...] = (200,),
        path: str | None = None,
        **options: Any,
    ) -> Any:
        """A call that may be repeated: tried again after a lost answer, 429 and 5xx.

        `options` are those of requests. Returns the `requests.Response` if its status is one of
        `ok`; raises RsctlError for all others, with `path` as the field that led here.
        """
        for attempt in range(1, self._pace.tries + 1):
            try:
                answer = self.once(method, url, **options)
            except Lost as problem:
                answer, lost = None, problem
            if answer is not None and answer.status_code not in _AGAIN:
                break
            if attempt < self._pace.tries:
                asked = answer.headers.get("Retry-After") if answer is not None else None
                self._pace.before_retry(attempt, asked)
        if answer is None:
            raise unreachable(url, lost)
        if answer.status_code not in ok:
            raise refused(answer, path)
        return answer

    def once(self, method: str, url: str, **options: Any) -> Any:
        """One try, whatever its status. Raises Lost if no whole answer came, and RsctlError."""
        import requests
        from google.auth import exceptions

        session = self._logged_in()
        try:
            return session.request(method, url, timeout=_TIMEOUT, allow_redirects=False, **options)
        except exceptions.RefreshError as problem:
            raise _expired(problem) from None
        except (exceptions.TransportError, requests.RequestException) as problem:
            raise Lost(_first(problem)) from None

    def _logged_in(self) -> Any:
        if self._session is None:
            self._session = _session()
        return self._session


def _session() -> Any:
    import google.auth
    from google.auth import exceptions
    from google.auth.transport.requests import AuthorizedSession

    try:
        with warnings.catch_warnings():
            # Of a user's credentials without a quota project, which these services do not ask for.
            warnings.simplefilter("ignore")
            credentials, _ = google.auth.default(scopes=[_SCOPE])
    except exceptions.GoogleAuthError as problem:
        message = f"no Google Cloud credentials here: {_first(problem)}"
        finding = error(NO_CREDENTIALS, message, GOOGLE_LOGIN)
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    make_session: Any = AuthorizedSession
    return make_session(credentials)


def endpoint(service: str) -> str:
    """Where a service answers, without a slash at the end. Raises RsctlError."""
    names = [f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{service.upper()}"]
    if service == "storage":
        names.append("STORAGE_EMULATOR_HOST")
    for name in names:
        if url := os.environ.get(name):
            return _checked(name, url if "://" in url else f"http://{url}")
    return f"https://{service}.googleapis.com"


def _checked(name: str, url: str) -> str:
    """An access token goes there, so without TLS it must be this machine."""
    place = urlsplit(url)
    if place.scheme == "https" or (place.scheme == "http" and is_loopback(place.hostname)):
        return url.rstrip("/")
    message = f"{name} is {url!r}, which would send an access token in clear over the network"
    remedy = "give an https:// address, or one on this machine"
    raise RsctlError(ExitCode.ENVIRONMENT, error("endpoint", message, remedy))


def is_loopback(host: str | None) -> bool:
    """Whether a host's name or address is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def unreachable(url: str, problem: Exception) -> RsctlError:
    """A service that gives no answer, after all tries."""
    message = f"{urlsplit(url).netloc} gives no answer: {problem}"
    finding = error("network", message, "check the network, then run the command again")
    return RsctlError(ExitCode.ENVIRONMENT, finding)


def _expired(problem: Exception) -> RsctlError:
    message = f"the Google Cloud credentials are not accepted: {_first(problem)}"
    finding = error("credentials-expired", message, GOOGLE_LOGIN)
    return RsctlError(ExitCode.ENVIRONMENT, finding)


def _first(problem: Exception) -> str:
    """The sentence of an error that may also carry a whole response; at most a few lines."""
    return str(problem.args[0] if problem.args else type(problem).__name__)[:500]
