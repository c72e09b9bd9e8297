"""An HTTP server on loopback: a table of routes, a record of calls, and faults on request."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import unquote

from rsctl.targets.managed.emulator import NOTICE
from rsctl.targets.managed.emulator.faults import Fault, Faults
from rsctl.targets.managed.emulator.request import LONGEST_BODY, MalformedRequest, read_head
from rsctl.targets.managed.emulator.request import Request as Request

_NO_FAULT = Fault("", times=0)
_KEPT_CALLS = 10_000
_BLOCK = 1 << 16
_LINGER_SECONDS = 5.0
"""Seconds that a refused client may continue to send, so that it reads the answer."""


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

    def with_headers(self, headers: Mapping[str, str]) -> Reply:
        """The same answer with further headers, or others in the place of its own."""
        return Reply(self.status, self.body, {**self.headers, **headers})


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


class RecordedCall(NamedTuple):
    """One entry of the record: which route, and with what status it ended (0: cut off)."""

    name: str
    status: int


class Emulator:
    """Base of the emulators: subclasses give routes, credentials and the vendor's errors.

    A context manager: it serves between entering and leaving. `internal` is the vendor's word for
    an error of its own.
    """

    internal = "INTERNAL"

    def __init__(self) -> None:
        self.faults = Faults()
        self.calls: deque[RecordedCall] = deque(maxlen=_KEPT_CALLS)
        self.lock = threading.RLock()
        self.routes: list[Route] = []
        self._server = _LoopbackServer(self)

    def listen(self, port: int) -> None:
        """Answer at this port rather than at a free one; to be called before entering.

        Raises OSError if it is taken.
        """
        server = _LoopbackServer(self, port)
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
        """End requests in progress."""

    def count(self, name: str) -> int:
        """How many calls a route has had."""
        return sum(call.name == name for call in self.calls)

    def name_of(self, request: Request) -> str:
        """The name of this request in faults and in the record."""
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
        return self.error(status, code, message)

    def refuse(self, status: int, code: str, message: str) -> Refused:
        """An error to raise."""
        return Refused(self.error(status, code, message))

    def admit(self, request: Request) -> Reply | None:
        """Why a request is not looked at, by its head alone; None if it is."""
        found, request = self.find(request)
        try:
            if found is None:
                return self.unknown(request)
            if not found.is_open:
                self.authorize(request)
        except Refused as refused:
            return refused.reply
        return None

    def unknown(self, request: Request) -> Reply:
        """The answer to what no route is for."""
        return self.error(404, "NOT_FOUND", f"no {request.method} {request.path} here")

    def answer(self, request: Request) -> Reply:
        """The answer to a request that was admitted."""
        found, request = self.find(request)
        if found is None:
            return self.error(404, "NOT_FOUND", f"no {request.method} {request.path} here")
        try:
            with self.lock:
                return found.handler(request)
        except Refused as refused:
            return refused.reply
        except Exception:  # noqa: BLE001 - the client must get an answer
            traceback.print_exc()
            message = "the emulator itself failed; see its own output"
            return self.error_for(request, 500, self.internal, message)

    def find(self, request: Request) -> tuple[Route | None, Request]:
        """The route of a request, and the request with the parts of its path."""
        for candidate in self.routes:
            match = candidate.pattern.fullmatch(request.path)
            if match and candidate.method == request.method:
                parts = {name: unquote(part) for name, part in match.groupdict().items()}
                return candidate, request._replace(parts=parts)
        return None, request


class _LoopbackServer(ThreadingHTTPServer):
    """The server of one emulator, on loopback."""

    daemon_threads = True

    def __init__(self, emulator: Emulator, port: int = 0) -> None:
        self.emulator = emulator
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    """One connection to an emulator."""

    server: _LoopbackServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes, and the second would wait
    timeout = 60

    def handle(self) -> None:
        """Serve a connection to its end; a client that hangs up is not an error."""
        with suppress(ConnectionError, TimeoutError):
            super().handle()

    def finish(self) -> None:
        """Send what is still buffered, to a client that may have hung up."""
        with suppress(ConnectionError, TimeoutError):
            super().finish()

    def _serve(self) -> None:
        """Answer one request, with the fault that is due for it, if any."""
        emulator = self.server.emulator
        try:
            length, request = read_head(self.command, self.path, self.headers)
        except MalformedRequest as problem:
            return self._turn_away(Reply(problem.status, f"{problem}\n".encode()))
        name = emulator.name_of(request)
        fault = emulator.faults.take(name, request.path) or _NO_FAULT
        time.sleep(fault.delay)
        if fault.cut == "request":
            self._discard(length // 2)
            return self._cut(name)
        if fault.status:
            self._discard(length)
            reply = emulator.error_for(request, fault.status, fault.code, fault.message)
            reply = reply.with_headers(fault.headers)
        elif refusal := emulator.admit(request):
            emulator.calls.append(RecordedCall(name, refusal.status))
            return self._turn_away(refusal) if length else self._send(refusal)
        else:
            body = self._body(length)
            if len(body) < length:  # the client has left in the middle
                return self._cut(name)
            reply = emulator.answer(request._replace(body=body))
        self._deliver(name, reply, fault.cut)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_PATCH = _serve

    def _deliver(self, name: str, reply: Reply, cut: str) -> None:
        """Send an answer, or cut the connection before it or in its middle."""
        if cut == "half":
            self._send_half(reply)
        if cut:
            return self._cut(name)
        self.server.emulator.calls.append(RecordedCall(name, reply.status))
        self._send(reply)

    def handle_expect_100(self) -> bool:
        """Ask for the body only once the request is admitted."""
        return True

    def _body(self, length: int) -> bytes:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        return self.rfile.read(length)

    def _discard(self, length: int, seconds: float = 60.0) -> None:
        """Read and drop a body, or the part that arrives within some seconds."""
        until = time.monotonic() + seconds
        while length > 0 and time.monotonic() < until:
            block = self.rfile.read1(min(length, _BLOCK))
            length -= len(block) or length

    def _turn_away(self, reply: Reply) -> None:
        """Answer without having read the body, and end the connection.

        What comes after all is read and dropped for a moment: to close at once would reset the
        connection, and the client would never see why.
        """
        self.close_connection = True
        self._send(reply.with_headers({"Connection": "close"}))
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(_LINGER_SECONDS)
            self._discard(LONGEST_BODY, _LINGER_SECONDS)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for key, value in reply.headers.items():
            self.send_header(key, value)
        if "Content-Length" not in reply.headers:
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def _send_half(self, reply: Reply) -> None:
        """The head of an answer, and of its body half."""
        half = Reply(reply.status, reply.body[: len(reply.body) // 2], reply.headers)
        self._send(half.with_headers({"Content-Length": str(len(reply.body))}))
        self.wfile.flush()

    def _cut(self, name: str) -> None:
        self.server.emulator.calls.append(RecordedCall(name, 0))
        self.close_connection = True
        with suppress(OSError):  # the client may be gone already
            self.connection.shutdown(socket.SHUT_RDWR)

    def version_string(self) -> str:
        return NOTICE

    def log_message(self, format: str, *args: object) -> None:
        """The record of calls is kept by the emulator."""
