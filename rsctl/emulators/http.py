"""An HTTP server on loopback: a table of routes, a record of calls, and faults on request."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from rsctl.emulators import NOTICE
from rsctl.emulators.faults import Faults

LONGEST_BODY = 64 << 20
"""Bytes; clients send larger things in parts."""

_KEPT_CALLS = 10_000


class Request(NamedTuple):
    """A call. `path` is as it was sent, `parts` what the route found in it, decoded."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    parts: dict[str, str] = {}

    def json(self) -> Any:
        """The body as JSON, {} if it is empty. Raises ValueError."""
        return json.loads(self.body) if self.body else {}


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, status: int = 200, kind: str = "application/json") -> Reply:
        """An answer of JSON."""
        return cls(status, json.dumps(value).encode(), {"Content-Type": kind})


class Refused(Exception):
    """Raised by a handler instead of an answer: the vendor's error."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"HTTP status {reply.status}")
        self.reply = reply


class Route(NamedTuple):
    """Which handler answers what; `name` is what faults and the record of calls call it."""

    name: str
    method: str
    pattern: re.Pattern[str]
    handler: Callable[[Request], Reply]
    is_open: bool = False


def route(
    name: str, method: str, path: str, handler: Callable[[Request], Reply], is_open: bool = False
) -> Route:
    """A route; `{x}` in the path is one part of it, `{x*}` also takes `/`.

    An open one needs no credentials.
    """
    pattern = re.sub(r"\{(\w+)\*\}", r"(?P<\1>.+)", path)
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/:]+)", pattern)
    return Route(name, method, re.compile(pattern), handler, is_open)


class Call(NamedTuple):
    """One entry of the record: which route, and with what status it ended (0: cut off)."""

    name: str
    status: int


class Emulator:
    """Base of the emulators: subclasses give routes, credentials and the vendor's errors.

    A context manager: it serves between entering and leaving.
    """

    def __init__(self) -> None:
        self.faults = Faults()
        self.calls: deque[Call] = deque(maxlen=_KEPT_CALLS)
        self.lock = threading.RLock()
        self.routes: list[Route] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True

    def listen(self, port: int) -> None:
        """Answer at this port rather than at a free one; to be called before entering.

        Raises OSError if it is taken.
        """
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler_of(self))
        server.daemon_threads = True
        self._server.server_close()
        self._server = server

    @property
    def url(self) -> str:
        """Where it answers, without a slash at the end."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Emulator:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.stop()

    def stop(self) -> None:
        """End what is still going on."""

    def count(self, name: str) -> int:
        """How many calls a route has had."""
        return sum(call.name == name for call in self.calls)

    def name_of(self, request: Request) -> str:
        """What faults and the record call this request."""
        found, _ = self.find(request)
        return found.name if found else f"{request.method} {request.path}"

    def authorize(self, request: Request) -> None:
        """Raise Refused unless the request has credentials of this emulator."""
        raise NotImplementedError

    def error(self, status: int, code: str, message: str) -> Reply:
        """An error as this vendor writes it; `code` is the vendor's word for it."""
        raise NotImplementedError

    def error_for(self, request: Request, status: int, code: str, message: str) -> Reply:
        """An error in the form of the service that this request is for."""
        del request
        return self.error(status, code, message)

    def refuse(self, status: int, code: str, message: str) -> Refused:
        """An error to raise."""
        return Refused(self.error(status, code, message))

    def answer(self, request: Request) -> Reply:
        """The answer to a request that no fault befalls."""
        found, request = self.find(request)
        try:
            if found is None:
                return self.error(404, "NOT_FOUND", f"no {request.method} {request.path} here")
            if not found.is_open:
                self.authorize(request)
            with self.lock:
                return found.handler(request)
        except Refused as refused:
            return refused.reply

    def find(self, request: Request) -> tuple[Route | None, Request]:
        """The route of a request, and the request with the parts of its path."""
        for candidate in self.routes:
            match = candidate.pattern.fullmatch(request.path)
            if match and candidate.method == request.method:
                parts = {name: unquote(part) for name, part in match.groupdict().items()}
                return candidate, request._replace(parts=parts)
        return None, request


def _handler_of(emulator: Emulator) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes, and the second would wait
        timeout = 60

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            address = urlsplit(self.path)
            query = parse_qs(address.query, keep_blank_values=True)
            request = Request(
                self.command,
                address.path,
                {name: values[-1] for name, values in query.items()},
                {name.lower(): value for name, value in self.headers.items()},
                b"",
            )
            name = emulator.name_of(request)
            fault = emulator.faults.take(name, request.path)
            if fault and fault.delay:
                time.sleep(fault.delay)
            if length > LONGEST_BODY or (fault and fault.cut == "request"):
                self.rfile.read(min(length // 2, LONGEST_BODY))
                return self._cut(name)
            request = request._replace(body=self.rfile.read(length))
            if fault and fault.status:
                reply = emulator.error_for(request, fault.status, fault.code, fault.message)
                reply = Reply(reply.status, reply.body, {**reply.headers, **fault.headers})
            else:
                reply = emulator.answer(request)
            if fault and fault.cut == "answer":
                return self._cut(name)
            emulator.calls.append(Call(name, reply.status))
            self._send(reply)

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for key, value in reply.headers.items():
                self.send_header(key, value)
            if "Content-Length" not in reply.headers:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        def _cut(self, name: str) -> None:
            emulator.calls.append(Call(name, 0))
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def version_string(self) -> str:
            return NOTICE

        def log_message(self, format: str, *args: object) -> None:
            """The record of calls is kept by the emulator."""

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

    return Handler
