"""Which requests the guard passes on, and its own answers, whole."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rsctl.ui.guard import Guard
from tests.kit.deferred import Deferred

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

testclient = Deferred("starlette.testclient")

TOKEN = "the-token"
ORIGIN = "http://127.0.0.1:8080"
ACTION = {"Origin": ORIGIN, "X-Rsctl-Action": "cancel"}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
NO_TOKEN = (403, "This page needs a token")
WRONG_HOST = (421, "Wrong host")
WRONG_ORIGIN = (403, "Wrong origin")
WRONG_METHOD = (405, "Wrong method")


async def application(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answers with the request that it has received."""
    asked = f"{scope['method']} {scope['path']}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"asked", asked)]})
    await send({"type": "http.response.body", "body": b"own"})


@pytest.fixture
def client() -> Any:
    return testclient.TestClient(Guard(application, 8080, TOKEN), ORIGIN)


@pytest.fixture
def known(client: Any) -> Any:
    """A client that has opened the address with the token."""
    client.get(f"/?token={TOKEN}")
    return client


def outcome(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.text.partition("<h1>")[2].partition("</h1>")[0]


def test_the_address_with_the_token_sets_the_cookie_and_leaves(client: Any) -> None:
    answer = client.get(f"/?token={TOKEN}")
    cookie = answer.headers.pop("set-cookie")
    secret = client.cookies["rsctl-8080"]
    assert len(secret) == 43  # 32 bytes
    assert cookie == f"rsctl-8080={secret}; Path=/; HttpOnly; SameSite=Strict"
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>rsctl</title><h1>rsctl</h1>'
        "<p>Opening the list of runs …</p></html>\n"
    )
    assert (answer.status_code, answer.text) == (200, page)
    assert dict(answer.headers) == {
        "content-type": "text/html; charset=utf-8",
        "content-length": str(len(page.encode())),
        **HEADERS,
        "refresh": "0; url=/",
    }
    other = testclient.TestClient(Guard(application, 8080, TOKEN), ORIGIN)
    other.get(f"/?token={TOKEN}")
    assert other.cookies["rsctl-8080"] != secret


def test_browsers_leave_out_port_80() -> None:
    client = testclient.TestClient(Guard(application, 80, TOKEN), "http://localhost")
    assert client.get(f"/?token={TOKEN}").request.headers["host"] == "localhost"
    assert outcome(client.get("/", headers={"Host": "localhost:80"})) == (200, "")
    assert client.get("/").text == "own"


def test_an_answer_of_the_application_gets_the_headers(known: Any) -> None:
    answer = known.get("/run/x")
    assert (answer.status_code, answer.text) == (200, "own")
    assert dict(answer.headers) == {"asked": "GET /run/x", **HEADERS}


@pytest.mark.parametrize(
    ("method", "path", "headers", "expected"),
    [
        ("GET", "/", {}, NO_TOKEN),
        ("GET", "/?token=wrong", {}, NO_TOKEN),
        ("GET", "/?other=the-token", {}, NO_TOKEN),
        ("HEAD", "/?token=the-token", {}, (403, "")),
        ("GET", "/run/x?token=the-token", {}, NO_TOKEN),
        ("POST", "/?token=the-token", ACTION, NO_TOKEN),
        ("GET", "/", {"Host": "localhost:8080"}, NO_TOKEN),
        ("GET", "/", {"Host": "LOCALHOST:8080"}, WRONG_HOST),
        ("GET", "/", {"Host": "localhost"}, WRONG_HOST),
        ("GET", "/", {"Host": ""}, WRONG_HOST),
        ("GET", "/", {"Cookie": "rsctl-8080="}, NO_TOKEN),
        ("GET", "/", {"Cookie": "rsctl-8080"}, NO_TOKEN),
        ("GET", "/metrics", {"Authorization": "Bearer wrong"}, NO_TOKEN),
        ("GET", "/metrics", {"Authorization": "Basic the-token"}, NO_TOKEN),
        ("GET", "/metrics", {"Authorization": "Bearer"}, NO_TOKEN),
        ("GET", "/metrics/", {"Authorization": "Bearer the-token"}, NO_TOKEN),
        ("GET", "/", {"Authorization": "Bearer the-token"}, NO_TOKEN),
        ("POST", "/metrics", {"Authorization": "Bearer the-token", **ACTION}, NO_TOKEN),
    ],
)
def test_a_stranger_is_refused(
    client: Any, method: str, path: str, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    answer = client.request(method, path, headers=headers)
    assert (answer.status_code, "set-cookie" in answer.headers) == (expected[0], False)
    if method != "HEAD":
        assert outcome(answer) == expected


@pytest.mark.parametrize(
    ("method", "headers", "expected"),
    [
        ("GET", {}, None),
        ("HEAD", {}, None),
        ("GET", {"Origin": ORIGIN}, None),
        ("GET", {"Host": "localhost:8080", "Origin": "http://localhost:8080"}, None),
        ("GET", {"Host": "localhost:8080", "Origin": ORIGIN}, WRONG_ORIGIN),
        ("GET", {"Origin": "https://127.0.0.1:8080"}, WRONG_ORIGIN),
        ("GET", {"Origin": "null"}, WRONG_ORIGIN),
        ("GET", {"Host": "evil.example:8080"}, WRONG_HOST),
        ("POST", ACTION, None),
        ("POST", {}, WRONG_ORIGIN),
        ("POST", {"Origin": ORIGIN}, WRONG_ORIGIN),
        ("POST", {"X-Rsctl-Action": "cancel"}, WRONG_ORIGIN),
        ("PUT", ACTION, WRONG_METHOD),
        ("DELETE", ACTION, WRONG_METHOD),
        ("OPTIONS", {}, WRONG_METHOD),
    ],
)
def test_the_page_of_the_user_reads_and_cancels(
    known: Any, method: str, headers: dict[str, str], expected: tuple[int, str] | None
) -> None:
    cookie = f"a=b; rsctl-8080={known.cookies['rsctl-8080']};c"
    answer = known.request(method, "/x", headers={"Cookie": cookie, **headers})
    if expected is None:
        assert (answer.status_code, answer.headers["asked"]) == (200, f"{method} /x")
    else:
        assert outcome(answer) == expected


def test_the_cookie_of_another_port_opens_nothing(known: Any) -> None:
    secret = known.cookies["rsctl-8080"]
    stranger = testclient.TestClient(known.app, ORIGIN)
    for cookie, status in ((f"rsctl-8080={secret}", 200), (f"rsctl-8081={secret}", 403)):
        assert stranger.get("/", headers={"Cookie": cookie}).status_code == status


@pytest.mark.parametrize("authorization", ["Bearer the-token", "bearer  the-token "])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_scraper_sends_the_token_itself(client: Any, authorization: str, method: str) -> None:
    answer = client.request(method, "/metrics", headers={"Authorization": authorization})
    assert (answer.status_code, answer.headers["asked"]) == (200, f"{method} /metrics")


@pytest.mark.parametrize(
    ("headers", "method", "title", "why"),
    [
        (
            {"Host": "<evil>"},
            "GET",
            "Wrong host",
            "Use 127.0.0.1 or localhost, with the port of `rsctl ui`.",
        ),
        ({"Origin": "null"}, "GET", "Wrong origin", "Another page has sent this request."),
        ({}, "PUT", "Wrong method", "Use GET, or POST to cancel."),
        ({}, "POST", "Wrong origin", "Only the page of `rsctl ui` can cancel."),
        (
            {},
            "GET",
            "This page needs a token",
            "Open the address that `rsctl ui` has printed: it contains the token.",
        ),
    ],
)
def test_a_refusal_says_why(
    client: Any, headers: dict[str, str], method: str, title: str, why: str
) -> None:
    answer = client.request(method, "/", headers=headers)
    assert f"<title>{title}</title><h1>{title}</h1><p>{why}</p></html>" in answer.text
    assert HEADERS.items() <= dict(answer.headers).items()


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_no_other_protocol_is_answered(kind: str) -> None:
    async def never(*_message: Any) -> Any:
        raise AssertionError("answered")

    guard = Guard(never, 8080, TOKEN)
    asyncio.run(guard({"type": kind, "headers": []}, never, never))
