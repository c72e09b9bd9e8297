"""Calls to Google's REST services: credentials, endpoints, retries, and what to say of an error.

Endpoints can be replaced as gcloud's can, by CLOUDSDK_API_ENDPOINT_OVERRIDES_ and the service in
capitals: AIPLATFORM, ARTIFACTREGISTRY, LOGGING, MONITORING, CLOUDBUILD, STORAGE. That of Cloud
Storage can be also by the client libraries' own STORAGE_EMULATOR_HOST.
"""

from __future__ import annotations

import os
import warnings
from typing import Any
from urllib.parse import urlsplit

from rsctl.clients.clients import google_request, google_session, in_clear, is_private
from rsctl.clients.google_errors import refused, said_by
from rsctl.clients.logins import GOOGLE_LOGIN, NO_CREDENTIALS
from rsctl.clients.pace import Pace
from rsctl.clients.reasons import innermost
from rsctl.findings import ExitCode, RsctlError, error

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_TIMEOUT = (10.0, 120.0)  # to connect, and between two bytes, in seconds


class Lost(Exception):
    """No answer came: whether the call was carried out is not known."""


class Google:
    """A session with the user's default credentials. It logs in with its first call.

    `project` is charged for the calls where a user's own credentials name no project for that,
    which Vertex AI, Cloud Logging and Cloud Monitoring ask for.
    """

    def __init__(self, pace: Pace, project: str | None = None) -> None:
        self._pace = pace
        self._project = project
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
        answer, lost = self._until_settled(method, url, options)
        if answer is None:
            raise unreachable(url, lost)
        if answer.status_code not in ok:
            raise refused(answer, path)
        return answer

    def ask(
        self,
        method: str,
        url: str,
        ok: tuple[int, ...] = (200,),
        path: str | None = None,
        **options: Any,
    ) -> Any:
        """Like `call`, for what is asked again and again: raises Lost where `call` gives up after
        a lost answer, 429 or 5xx, so that whoever asks can come back later.
        """
        answer, lost = self._until_settled(method, url, options)
        if answer is None:
            raise lost
        if is_transient(answer):
            raise Lost(said_by(answer))
        if answer.status_code not in ok:
            raise refused(answer, path)
        return answer

    def _until_settled(self, method: str, url: str, options: dict[str, Any]) -> tuple[Any, Lost]:
        """The answer of the last try, None where that was lost, and how an answer was lost last."""
        lost = Lost()
        for attempt in range(1, self._pace.tries + 1):
            try:
                answer = self.once(method, url, **options)
            except Lost as problem:
                answer, lost = None, problem
            if answer is not None and not is_transient(answer):
                break
            if attempt < self._pace.tries:
                asked = answer.headers.get("Retry-After") if answer is not None else None
                self._pace.before_retry(attempt, asked)
        return answer, lost

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
            raise Lost(innermost(problem)) from None

    def identity(self) -> str:
        """Whose credentials they are, once a token shows that they are good. Raises RsctlError."""
        from google.auth import exceptions

        credentials = self._logged_in().credentials
        try:
            credentials.refresh(google_request())
        except exceptions.TransportError as problem:
            raise unreachable("https://oauth2.googleapis.com", problem) from None
        except exceptions.GoogleAuthError as problem:
            raise _expired(problem) from None
        names = (getattr(credentials, name, "") for name in ("service_account_email", "account"))
        return next(filter(None, names), f"a user ({type(credentials).__name__})")

    def _logged_in(self) -> Any:
        if self._session is None:
            self._session = _session(self._project)
        return self._session


def is_transient(answer: Any) -> bool:
    """Whether a `requests.Response` says that the same call may succeed later."""
    return answer.status_code in _AGAIN


def body_of(answer: Any) -> dict[str, Any]:
    """The JSON object that a `requests.Response` brings. Raises Lost if it brings something else,
    such as the page of a proxy.
    """
    try:
        body = answer.json()
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Lost("an answer that is no JSON object")
    return body


def _session(project: str | None) -> Any:
    import google.auth
    from google.auth import exceptions

    try:
        with warnings.catch_warnings():
            # Of a user's credentials without a quota project, which these services do not ask for.
            warnings.simplefilter("ignore")
            credentials, _ = google.auth.default(scopes=[_SCOPE])
    except exceptions.GoogleAuthError as problem:
        message = f"no Google Cloud credentials here: {_first(problem)}"
        finding = error(NO_CREDENTIALS, message, GOOGLE_LOGIN)
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    return google_session(_charged_to(credentials, project))


def _charged_to(credentials: Any, project: str | None) -> Any:
    from google.oauth2.credentials import Credentials

    is_a_users = isinstance(credentials, Credentials)
    if project is None or not is_a_users or credentials.quota_project_id:
        return credentials
    return credentials.with_quota_project(project)


def endpoint(service: str, region: str | None = None) -> str:
    """Where a service answers, in one region if it is regional, without a slash at the end.

    Raises RsctlError.
    """
    names = [f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{service.upper()}"]
    if service == "storage":
        names.append("STORAGE_EMULATOR_HOST")
    for name in names:
        if url := os.environ.get(name):
            return _checked(name, url if "://" in url else f"http://{url}")
    host = f"{region}-{service}" if region else service
    return f"https://{host}.googleapis.com"


def _checked(name: str, url: str) -> str:
    if not is_private(url):
        raise in_clear(f"{name} is {url!r}")
    return url.rstrip("/")


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
