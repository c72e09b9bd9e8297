"""Google's services by one verb: what is tried again, and what a caller gets in the end."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from google.auth import exceptions
from google.oauth2.credentials import Credentials
from urllib3.exceptions import MaxRetryError, NewConnectionError

from rsctl.clients import google as module
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import GOOGLE_LOGIN, NO_CREDENTIALS, NoAnswer
from rsctl.clients.google import Google, body_of, google_credentials, renew
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import ExitCode, Finding, RsctlError, error

TRANSIENT = (408, 429, 500, 502, 503, 504)


class Answer:
    """A response of requests, as far as it is read."""

    def __init__(self, status: int, message: str = "", retry_after: str | None = None) -> None:
        self.status_code = status
        self.headers = {"Retry-After": retry_after} if retry_after else {}
        self._body = {"error": {"message": message}} if message else {}
        self.url = "https://x.example/v1"

    def json(self) -> dict[str, Any]:
        return self._body


class Session:
    """Answers in order, the last again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.calls = list(answers), 0
        self.options: dict[str, Any] = {}

    def request(self, *_: Any, **options: Any) -> Answer:
        self.calls += 1
        self.options = options
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def client(session: Session, waits: list[float]) -> Google:
    made = Google(Endpoints(), retries=RetryPolicy(tries=3, sleep=waits.append))
    made._session = session
    return made


def test_busy_services_are_asked_again_as_they_wish() -> None:
    waits: list[float] = []
    session = Session(Answer(429, "later", "7"), Answer(503), Answer(200))
    assert client(session, waits).request("GET", "https://x.example/v1").status_code == 200
    assert session.calls == 3
    assert waits[0] >= 7


@pytest.mark.parametrize(("status", "calls"), [(s, 2) for s in TRANSIENT] + [(501, 1), (505, 1)])
def test_what_is_transient_is_asked_again(status: int, calls: int) -> None:
    session = Session(Answer(status), Answer(200))
    answer = client(session, []).request("GET", "https://x.example/v1", ok=(200, 501, 505))
    assert (session.calls, answer.status_code == 200) == (calls, calls == 2)


@pytest.mark.parametrize(
    ("status", "message", "exit_code", "code", "is_busy"),
    [
        (503, "HTTP status 503: down", ExitCode.REFUSED, "cloud", False),
        (429, "HTTP status 429: down", ExitCode.REFUSED, "quota", True),
    ],
)
def test_what_is_transient_to_the_end_is_no_answer(
    status: int, message: str, exit_code: ExitCode, code: str, is_busy: bool
) -> None:
    session = Session(Answer(status, "down"))
    with pytest.raises(NoAnswer) as caught:
        client(session, []).request("GET", "https://x.example/v1")
    problem = caught.value
    assert session.calls == 3
    assert (problem.reason, problem.exit_code, problem.is_busy) == (message, exit_code, is_busy)
    assert problem.findings[0].code == code


def test_without_retry_there_is_one_try_of_any_status() -> None:
    session = Session(Answer(503))
    answer = client(session, []).request("POST", "https://x.example/v1", retry=False, ok=None)
    assert (answer.status_code, session.calls) == (503, 1)


def test_a_call_ends_in_time_and_is_not_led_elsewhere() -> None:
    session = Session(Answer(200))
    client(session, []).request("PUT", "https://x.example/v1", data=b"x")
    assert session.options == {"timeout": (10.0, 120.0), "allow_redirects": False, "data": b"x"}


def test_what_is_refused_is_not_tried_again() -> None:
    session = Session(Answer(403, "no"))
    with pytest.raises(RsctlError) as caught:
        client(session, []).request("GET", "https://x.example/v1", path="targets.vertex")
    [finding] = caught.value.findings
    assert (session.calls, finding.code, finding.path) == (1, "denied", "targets.vertex")
    assert not isinstance(caught.value, NoAnswer)


def test_credentials_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    with pytest.raises(RsctlError) as caught:
        google_credentials(Endpoints())
    [finding] = caught.value.findings
    assert (caught.value.exit_code, finding.code) == (ExitCode.ENVIRONMENT, NO_CREDENTIALS)
    assert finding.message.startswith(
        "there are no Google Cloud credentials: File /nowhere.json was not found."
    )
    assert finding.remedy == GOOGLE_LOGIN


def raised(problem: Exception, answer: Answer | None = None) -> tuple[RsctlError, Google]:
    """What becomes of an exception in a call."""
    session = Session(answer or Answer(200))
    made = client(session, [])

    def fail(*_: Any, **__: Any) -> Answer:
        session.calls += 1
        raise problem

    session.request = fail  # type: ignore[method-assign]
    with pytest.raises(RsctlError) as caught:
        made.request("GET", "https://x.example/v1")
    assert session.calls == (3 if isinstance(caught.value, NoAnswer) else 1)
    return caught.value, made


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (requests.ConnectionError("no route"), "no route"),
        (requests.ConnectionError(), "ConnectionError"),
        (requests.ConnectionError("HTTPSConnection(host='x', port=443): no route"), "no route"),
        (requests.ConnectionError("<urllib3.connection.HTTPSConnection object at 0x7f>: no"), "no"),
        (
            requests.ConnectionError(
                MaxRetryError(None, "/", NewConnectionError(None, "no route"))  # type: ignore[arg-type]
            ),
            "None: no route",
        ),
        (requests.ReadTimeout("x" * 501), "x" * 500),
        (exceptions.TransportError(requests.ConnectionError("no route")), "no route"),
    ],
)
def test_no_answer_has_its_reason_below_the_layers_of_libraries(
    problem: Exception, reason: str
) -> None:
    made, _ = raised(problem)
    assert isinstance(made, NoAnswer)
    assert (made.reason, made.sent, made.exit_code) == (reason, True, ExitCode.ENVIRONMENT)
    remedy = "check the network, then run the command again"
    message = f"x.example gives no answer: {reason}"
    assert made.findings == (error("network", message, remedy),)


@pytest.mark.parametrize(
    ("text", "exit_code", "finding"),
    [
        (
            "invalid_grant",
            ExitCode.ENVIRONMENT,
            error(
                "credentials-expired",
                "Google Cloud does not accept the credentials: invalid_grant",
                GOOGLE_LOGIN,
            ),
        ),
        # https://github.com/googleapis/google-cloud-python/issues/15080
        (
            "invalid_grant: Invalid JWT: Token must be a short-lived token (60 minutes) and in a "
            "reasonable timeframe. Check your iat and exp values in the JWT claim.",
            ExitCode.ENVIRONMENT,
            error(
                "clock",
                "Google Cloud does not accept the credentials: invalid_grant: Invalid JWT: Token "
                "must be a short-lived token (60 minutes) and in a reasonable timeframe. Check "
                "your iat and exp values in the JWT claim.",
                "set this machine's clock: Google accepts current tokens only",
            ),
        ),
        (
            "PERMISSION_DENIED: no",
            ExitCode.REFUSED,
            error(
                "denied",
                "Google Cloud issues no access token: PERMISSION_DENIED: no",
                "ask for roles/iam.serviceAccountTokenCreator on the service account",
            ),
        ),
        (
            "x" * 501,
            ExitCode.ENVIRONMENT,
            error(
                "credentials-expired",
                f"Google Cloud does not accept the credentials: {'x' * 500}",
                GOOGLE_LOGIN,
            ),
        ),
    ],
)
def test_credentials_that_cannot_be_renewed_are_read_again(
    text: str, exit_code: ExitCode, finding: Finding
) -> None:
    made, google = raised(exceptions.RefreshError(text, {"the whole": "answer"}))
    assert (made.exit_code, made.findings) == (exit_code, (finding,))
    assert google._session is None

    class Refused:
        def refresh(self, _: object) -> None:
            raise exceptions.RefreshError(text)

    with pytest.raises(RsctlError) as caught:
        renew(Refused(), Endpoints())
    assert (caught.value.exit_code, caught.value.findings) == (exit_code, (finding,))


def test_a_token_service_that_gives_no_answer() -> None:
    class Lost:
        def refresh(self, _: object) -> None:
            raise exceptions.TransportError

    with pytest.raises(NoAnswer) as caught:
        renew(Lost(), Endpoints())
    message = "oauth2.googleapis.com gives no answer: TransportError"
    assert caught.value.findings[0].message == message


@pytest.mark.parametrize("body", ["null", "[]", "5", '"x"', "{}", "<html>log in</html>"])
def test_an_answer_of_the_token_service_without_a_token(
    monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    credentials = Credentials(
        *(None, "refresh"), token_uri="https://x.example", client_id="me", client_secret="s"
    )
    sent = SimpleNamespace(status=200, data=body.encode(), headers={})
    monkeypatch.setattr(module, "google_request", lambda _: lambda *_, **__: sent)
    with pytest.raises(RsctlError) as caught:
        renew(credentials, Endpoints())
    assert caught.value.exit_code is ExitCode.ENVIRONMENT


@pytest.mark.parametrize(("status", "is_kept"), [(401, False), (403, True), (200, True)])
def test_only_refused_credentials_are_read_again(status: int, is_kept: bool) -> None:
    made = client(Session(Answer(status)), [])
    made.request("GET", "https://x.example/v1", ok=None)
    assert (made._session is not None) is is_kept


@pytest.mark.parametrize("body", [[], None, "text", ValueError(), RecursionError()])
def test_an_answer_that_is_no_json_object(body: object) -> None:
    class Odd(Answer):
        def json(self) -> Any:
            if isinstance(body, Exception):
                raise body
            return body

    with pytest.raises(NoAnswer) as caught:
        body_of(Odd(200))
    message = "x.example gives no answer: the answer is not a JSON object"
    assert caught.value.findings[0].message == message
    assert body_of(Answer(200, "m")) == {"error": {"message": "m"}}


@pytest.mark.parametrize(
    ("names", "identity"),
    [
        ({"service_account_email": "s@p", "account": "u@x"}, "s@p"),
        ({"service_account_email": "", "account": "u@x"}, "u@x"),
        ({"account": ""}, "a user (SimpleNamespace)"),
        ({}, "a user (SimpleNamespace)"),
    ],
)
def test_whose_credentials_they_are(names: dict[str, str], identity: str) -> None:
    made = client(Session(Answer(200)), [])
    renewed: list[object] = []
    credentials = SimpleNamespace(refresh=renewed.append, **names)
    made._session.credentials = credentials
    assert (made.identity(), made.credentials, len(renewed)) == (identity, credentials, 1)


@pytest.mark.parametrize(
    ("project", "own", "charged"),
    [(None, None, None), ("p", None, "p"), ("p", "own", "own"), (None, "own", "own")],
)
def test_a_users_calls_are_charged_to_the_project(
    tmp_path: Path, project: str | None, own: str | None, charged: str | None
) -> None:
    """Once a client is logged in; each service without a quota project of its own asks for one."""
    file = tmp_path / "user.json"
    user = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}
    file.write_text(json.dumps(user | ({"quota_project_id": own} if own else {})))
    variables = {"GOOGLE_APPLICATION_CREDENTIALS": str(file)}
    google = Google(Endpoints.of_emulator(variables), project)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a user's credentials without a project
        credentials = google.credentials
    assert (credentials.quota_project_id, google.credentials) == (charged, credentials)
    assert credentials.scopes == ["https://www.googleapis.com/auth/cloud-platform"]
