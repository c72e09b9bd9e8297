"""Calls to Google's REST services: credentials, retries, and errors as findings."""

from __future__ import annotations

import warnings
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import (
    GOOGLE_LOGIN,
    NO_CREDENTIALS,
    OF_OTHER_TYPES,
    NoAnswer,
    no_answer,
)
from rsctl.clients.google_errors import error_message, google_error
from rsctl.clients.retries import RetryPolicy
from rsctl.clients.sessions import connection_problem, google_request, google_session
from rsctl.findings import ExitCode, RsctlError, error

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_TIMEOUT = (10.0, 120.0)  # to connect, and between two bytes, in seconds


class Google:
    """A session with the user's credentials. It logs in with its first call.

    `project` is charged for the calls where a user's own credentials name no project for that,
    which Vertex AI, Cloud Logging and Cloud Monitoring ask for.
    """

    def __init__(
        self, endpoints: Endpoints, project: str | None = None, retries: RetryPolicy | None = None
    ) -> None:
        self.endpoints, self.retries = endpoints, retries or RetryPolicy.of(endpoints)
        self._project = project
        self._lock = Lock()
        self._session: Any = None

    def request(
        self,
        method: str,
        url: str,
        *,
        retry: bool = True,
        ok: tuple[int, ...] | None = (200,),
        path: str | None = None,
        **options: Any,
    ) -> Any:
        """The `requests.Response` to a call, if its status is one of `ok`; None is any status.

        With `retry` a call is made again after a lost answer, 429 and 5xx, which only calls that
        may be repeated can be. `options` are options of `requests`. Raises NoAnswer if the last try
        got no answer, or such a status; RsctlError for all other errors, with `path` as their
        field.
        """
        answer = self._last_answer(method, url, self.retries.tries if retry else 1, options)
        if ok is None or answer.status_code in ok:
            return answer
        refused = google_error(answer, path)
        if is_transient(answer):
            is_busy = answer.status_code == 429
            raise NoAnswer(
                error_message(answer), refused.exit_code, *refused.findings, is_busy=is_busy
            )
        raise refused

    def _last_answer(self, method: str, url: str, tries: int, options: dict[str, Any]) -> Any:
        """The answer of the last try that was made. Raises NoAnswer if it got none."""
        for attempt in range(1, tries):
            asked_to_wait = None
            try:
                answer = self._request_once(method, url, options)
                if not is_transient(answer):
                    return answer
                asked_to_wait = answer.headers.get("Retry-After")
            except NoAnswer:
                pass
            self.retries.before_retry(attempt, asked_to_wait)
        return self._request_once(method, url, options)

    def _request_once(self, method: str, url: str, options: dict[str, Any]) -> Any:
        import requests
        from google.auth import exceptions

        session = self._logged_in()
        try:
            answer = session.request(
                method, url, timeout=_TIMEOUT, allow_redirects=False, **options
            )
            if answer.status_code == 401:
                self._log_out()
            return answer
        except exceptions.RefreshError as problem:
            self._log_out()
            raise _not_accepted(problem) from None
        except (exceptions.TransportError, requests.RequestException) as problem:
            raise no_answer(urlsplit(url).netloc, connection_problem(problem)) from None
        except OF_OTHER_TYPES:
            raise _without_token() from None

    def identity(self) -> str:
        """Whose credentials they are, once a token shows that they are good. Raises RsctlError."""
        credentials = self._logged_in().credentials
        renew(credentials, self.endpoints)
        names = (getattr(credentials, name, "") for name in ("service_account_email", "account"))
        return next(filter(None, names), f"a user ({type(credentials).__name__})")

    @property
    def credentials(self) -> Any:
        """The credentials of the calls. Raises RsctlError if there are none."""
        return self._logged_in().credentials

    def _log_out(self) -> None:
        """Read the credentials again for the next call: a login elsewhere may have renewed them."""
        with self._lock:
            self._session = None

    def _logged_in(self) -> Any:
        with self._lock:
            if self._session is None:
                credentials = _charged_to(google_credentials(self.endpoints), self._project)
                self._session = google_session(credentials, self.endpoints)
            return self._session


def is_transient(answer: Any) -> bool:
    """Whether a `requests.Response` says that the same call may succeed later."""
    return answer.status_code in _TRANSIENT


def body_of(answer: Any, *members: str) -> dict[str, Any]:
    """The JSON object that a `requests.Response` brings. Raises NoAnswer if it brings something
    else, such as the page of a proxy, or no value of one of these members.
    """
    try:
        body = answer.json()
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise no_answer(urlsplit(str(answer.url)).netloc, "the answer is not a JSON object")
    if lacking := [member for member in members if not body.get(member)]:
        raise no_answer(urlsplit(str(answer.url)).netloc, f"the answer has no {lacking[0]}")
    return body


def google_credentials(endpoints: Endpoints) -> Any:
    """The credentials that calls carry, not renewed yet. Raises RsctlError if there are none."""
    import google.auth
    from google.auth import exceptions

    key_file = endpoints.google_key_file
    try:
        with warnings.catch_warnings():
            # Of a user's credentials without a quota project, which these services do not ask for.
            warnings.simplefilter("ignore")
            if key_file is None:
                credentials, _ = google.auth.default(scopes=[_SCOPE])
            else:
                load: Any = google.auth.load_credentials_from_file
                credentials, _ = load(key_file, scopes=[_SCOPE])
    except exceptions.GoogleAuthError as problem:
        raise no_credentials(problem) from None
    return credentials


def no_credentials(problem: Exception) -> RsctlError:
    """The error of google-auth, with the remedy."""
    message = f"there are no Google Cloud credentials: {_first_line(problem)}"
    return RsctlError(ExitCode.ENVIRONMENT, error(NO_CREDENTIALS, message, GOOGLE_LOGIN))


def renew(credentials: Any, endpoints: Endpoints) -> None:
    """Get a token that is valid at present. Raises NoAnswer, and RsctlError if it is refused."""
    from google.auth import exceptions

    try:
        credentials.refresh(google_request(endpoints))
    except exceptions.TransportError as problem:
        raise no_answer("oauth2.googleapis.com", _first_line(problem)) from None
    except exceptions.GoogleAuthError as problem:
        raise _not_accepted(problem) from None
    except OF_OTHER_TYPES:
        raise _without_token() from None


def _without_token() -> NoAnswer:
    """google-auth reads the JSON of an access token without a check of its types."""
    return no_answer("the service of access tokens", "the answer is not a JSON object with a token")


def _charged_to(credentials: Any, project: str | None) -> Any:
    from google.oauth2.credentials import Credentials

    is_a_users = isinstance(credentials, Credentials)
    if project is None or not is_a_users or credentials.quota_project_id:
        return credentials
    return credentials.with_quota_project(project)


def _not_accepted(problem: Exception) -> RsctlError:
    if "PERMISSION_DENIED" in str(problem):
        message = f"Google Cloud issues no access token: {_first_line(problem)}"
        remedy = "ask for roles/iam.serviceAccountTokenCreator on the service account"
        return RsctlError(ExitCode.REFUSED, error("denied", message, remedy))
    message = f"Google Cloud does not accept the credentials: {_first_line(problem)}"
    if "reasonable timeframe" in message:
        remedy = "set this machine's clock: Google accepts current tokens only"
        finding = error("clock", message, remedy)
    else:
        finding = error("credentials-expired", message, GOOGLE_LOGIN)
    return RsctlError(ExitCode.ENVIRONMENT, finding)


def _first_line(problem: Exception) -> str:
    """The sentence of an error that may also carry a whole response; at most a few lines."""
    return str(problem.args[0] if problem.args else type(problem).__name__)[:500]
