"""A request to an emulator, and what no front end of a cloud would pass on."""

from __future__ import annotations

import json
import re
from email.message import Message
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

LONGEST_BODY = 64 << 20
"""Bytes; clients send larger things in parts."""

_LENGTH = re.compile(r"[0-9]{1,15}")
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class Request(NamedTuple):
    """A call. `path` is as it was sent, `parts` what the route found in it, decoded.

    `query` has the last value of each name, `queries` all of them.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    parts: dict[str, str] = {}
    queries: dict[str, list[str]] = {}

    def json(self) -> Any:
        """The body as JSON, {} if it is empty.

        Raises ValueError, also for texts that no program and no file could be given: those with
        the character NUL, or with half of a surrogate pair.
        """
        text = self.body.decode()
        if _NUL.search(text):
            raise ValueError("a text has the character NUL")
        try:
            value = json.loads(text, parse_constant=_no_constant) if text else {}
            if "\\u" in text:
                json.dumps(value, ensure_ascii=False).encode()
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class MalformedRequest(Exception):
    """An invalid or unsupported request, which is answered in plain text."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read_head(method: str, target: str, headers: Message) -> tuple[int, Request]:
    """The length of the body, and the request without it. Raises Malformed.

    Nothing is guessed about where a body ends: what followed would be taken for a request.
    """
    if "Transfer-Encoding" in headers:
        raise MalformedRequest(411, "the request must give the length of its body")
    lengths = {value.strip() for value in headers.get_all("Content-Length", ["0"])}
    length = lengths.pop()
    if lengths or not _LENGTH.fullmatch(length):
        raise MalformedRequest(400, "Content-Length is not a valid number of bytes")
    if int(length) > LONGEST_BODY:
        raise MalformedRequest(413, f"the body is longer than {LONGEST_BODY} bytes")
    if "\0" in unquote(target):
        raise MalformedRequest(400, "the path has the character NUL")
    try:
        address = urlsplit(target)
    except ValueError:
        raise MalformedRequest(400, "the path is not valid") from None
    query = parse_qs(address.query, keep_blank_values=True)
    return int(length), Request(
        method,
        address.path,
        {name: values[-1] for name, values in query.items()},
        {name.lower(): value for name, value in headers.items()},
        b"",
        queries=query,
    )
