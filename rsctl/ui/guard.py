"""Decides which requests the server answers, and restricts what a page may do.

Every page in the browser of the user, and every process on the machine, can send requests to
loopback. So a request needs a cookie, which only the address with the token sets; the `Host` of
this server, so that no other name that resolves to loopback is accepted (DNS rebinding); and, from
a browser, an origin that is this server. Prometheus sends the token itself, for `/metrics` alone.
"""

from __future__ import annotations

import secrets
from html import escape

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content that a page may load or run: the files of this server alone, nothing inline."""

HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
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
        request = Request(scope)
        refusal = self._refusal(request)
        answer: ASGIApp
        if refusal is not None:
            answer = _page(*refusal)
        elif self._has_token(request):
            answer = self._login()
        elif self._has_session(request) or self._is_scrape(request):
            answer = self._app
        else:
            why = "Open the address that `rsctl ui` has printed: it contains the token."
            answer = _page(403, "This page needs a token", why)
        await answer(scope, receive, _with_headers(send))

    def _refusal(self, request: Request) -> tuple[int, str, str] | None:
        """The status, title and reason of a request that is never answered."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in self._hosts:
            return 421, "Wrong host", "Use 127.0.0.1 or localhost, with the port of `rsctl ui`."
        if origin is not None and origin != f"http://{host}":
            return 403, "Wrong origin", "Another page has sent this request."
        if request.method in ("GET", "HEAD"):
            return None
        if request.method != "POST":
            return 405, "Wrong method", "Use GET, or POST to cancel."
        if origin is None or ACTION_HEADER not in request.headers:
            return 403, "Wrong origin", "Only the page of `rsctl ui` can cancel."
        return None

    def _has_token(self, request: Request) -> bool:
        if request.scope["path"] != "/" or request.method != "GET":
            return False
        return _is_equal(request.query_params.get("token", ""), self._token)

    def _is_scrape(self, request: Request) -> bool:
        """Whether a monitoring system reads the metrics, by the token; it may read nothing else."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        is_known = kind.lower() == "bearer" and _is_equal(given.strip(), self._token)
        return is_known and request.scope["path"] == "/metrics" and request.method != "POST"

    def _has_session(self, request: Request) -> bool:
        parts = request.headers.get("cookie", "").split(";")
        pairs = (part.strip().partition("=") for part in parts)
        return any(_is_equal(value, self._session) for name, _, value in pairs
                   if name == self._cookie)  # fmt: skip

    def _login(self) -> HTMLResponse:
        """Set the cookie, and leave the address with the token.

        This is a page and not a redirect: a browser does not send a cookie with `SameSite=Strict`
        with a redirect that began at another site, such as a chat in which the address was sent.
        """
        page = _page(200, "rsctl", "Opening the list of runs …")
        page.headers["set-cookie"] = (
            f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
        )
        page.headers["refresh"] = "0; url=/"
        return page


def _is_equal(given: str, known: str) -> bool:
    return secrets.compare_digest(given.encode(), known.encode())


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return sending


def _page(status: int, title: str, text: str) -> HTMLResponse:
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><h1>{escape(title)}</h1><p>{escape(text)}</p></html>\n"
    )
    return HTMLResponse(page, status)
