"""Google's services by one verb: what is tried again, and what a caller gets in the end."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import GOOGLE_LOGIN, NO_CREDENTIALS, NoAnswer
from rsctl.clients.google import Google, google_credentials
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import ExitCode, RsctlError

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
