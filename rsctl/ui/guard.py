"""Decides which requests the server answers, and restricts what a page may do.

Every page in the browser of the user, and every process on the machine, can send requests to
loopback. So a request needs a cookie, which only the address with the token sets; the `Host` of
this server, so that no other name that resolves to loopback is accepted (DNS rebinding); and, from
a browser, an origin that is this server. Prometheus sends the token itself, for `/metrics` alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.types import ASGIApp

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content that a page may load or run: the files of this server alone, nothing inline."""

HEADERS = (
    ("content-security-policy", POLICY),
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
ACTION_HEADER = "x-rsctl-action"
"""A header that a POST needs: a form of another site cannot send it."""

_COOKIE_BYTES = 32
_HTTP = 80


class Guard:
    """Answers requests of the user's browser alone; the ASGI application gets only those."""

    def __init__(self, app: ASGIApp, port: int, token: str) -> None:
        self._token = token
        self._app = app
        self._session = secrets.token_urlsafe(_COOKIE_BYTES)
        self._cookie = f"rsctl-{port}"  # cookies do not know ports
        suffixes = (f":{port}", "") if port == _HTTP else (f":{port}",)  # which browsers leave out
        self._hosts = {name + suffix for name in ("127.0.0.1", "localhost") for suffix in suffixes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value for name, value in _texts(scope)}
        refusal = self._refusal(scope["method"], headers)
        if refusal is not None:
            await _answer(send, *refusal)
        elif self._has_token(scope):
            await self._log_in(send)
        elif not (self._has_session(headers) or self._is_scrape(scope, headers)):
            why = "Open the address that `rsctl ui` has printed: it contains the token."
            await _answer(send, 403, "This page needs a token", why)
        else:
            await self._app(scope, receive, _with_headers(send))

    def _refusal(self, method: str, headers: dict[str, str]) -> tuple[int, str, str] | None:
        """The status, title and reason of a request that is never answered."""
        host = headers.get("host", "")
        if host not in self._hosts:
            return 421, "Wrong host", "Use 127.0.0.1 or localhost, with the port of `rsctl ui`."
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "Wrong origin", "Another page has sent this request."
        if method in ("GET", "HEAD"):
            return None
        if method != "POST":
            return 405, "Wrong method", "Use GET, or POST to cancel."
        if origin is None or ACTION_HEADER not in headers:
            return 403, "Wrong origin", "Only the page of `rsctl ui` can cancel."
        return None

    def _has_token(self, scope: Scope) -> bool:
        if scope["path"] != "/" or scope["method"] != "GET":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return _is_equal(given, self._token)

    def _is_scrape(self, scope: Scope, headers: dict[str, str]) -> bool:
        """Whether a monitoring system reads the metrics, by the token; it may read nothing else."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        is_known = kind.lower() == "bearer" and _is_equal(given.strip(), self._token)
        return is_known and scope["path"] == "/metrics" and scope["method"] in ("GET", "HEAD")

    def _has_session(self, headers: dict[str, str]) -> bool:
        pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        return any(_is_equal(value, self._session) for name, _, value in pairs
                   if name == self._cookie)  # fmt: skip

    async def _log_in(self, send: Send) -> None:
        """Set the cookie, and leave the address with the token.

        This is a page and not a redirect: a browser does not send a cookie with `SameSite=Strict`
        with a redirect that began at another site, such as a chat in which the address was sent.
        """
        cookie = f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
        more = (("set-cookie", cookie), ("refresh", "0; url=/"))
        await _answer(send, 200, "rsctl", "Opening the list of runs …", more)


def _texts(scope: Scope) -> list[tuple[bytes, str]]:
    return [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]


def _is_equal(given: str, known: str) -> bool:
    return secrets.compare_digest(given.encode(), known.encode())


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *_raw(HEADERS)]
        await send(message)

    return sending


def _raw(headers: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers]


async def _answer(
    send: Send, status: int, title: str, text: str, more: tuple[tuple[str, str], ...] = ()
) -> None:
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><h1>{escape(title)}</h1><p>{escape(text)}</p></html>\n"
    )
    body = page.encode()
    headers = (
        ("content-type", "text/html; charset=utf-8"),
        ("content-length", str(len(body))),
        *HEADERS,
        *more,
    )
    await send({"type": "http.response.start", "status": status, "headers": _raw(headers)})
    await send({"type": "http.response.body", "body": body})
