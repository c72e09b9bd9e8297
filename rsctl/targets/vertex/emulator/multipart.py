"""The body of an upload of metadata and content in one request (multipart/related, RFC 2387)."""

from __future__ import annotations

import json
import re
from typing import Any, Optional

from rsctl.targets.managed.emulator.http import Request

_TYPE = re.compile(r"^content-type:([^\r\n]+)", re.IGNORECASE | re.MULTILINE)
_BOUNDARY = re.compile(r"""multipart/related;\s*boundary=["']?([^"';\s]+)["']?""", re.IGNORECASE)


def multipart_related(request: Request) -> tuple[dict[str, Any], bytes, Optional[str]]:
    """The metadata of an object, its content, and the content's type. Raises ValueError.

    Clients of Google end lines by CRLF and give the second part's length by nothing but the
    boundary, so the content may be any bytes.
    """
    found = _BOUNDARY.match(request.headers.get("content-type", ""))
    if not found:
        raise ValueError("the content type is not multipart/related with a boundary")
    mark = b"--" + found[1].encode()
    parts = (b"\r\n" + request.body).split(b"\r\n" + mark)
    if len(parts) != 4 or not parts[3].startswith(b"--"):
        raise ValueError("two parts are expected, the metadata and the content")
    about = json.loads(_body(parts[1]))
    if not isinstance(about, dict):
        raise ValueError("the metadata is not an object")
    kind = _TYPE.search(parts[2].partition(b"\r\n\r\n")[0].decode(errors="replace"))
    return about, _body(parts[2]), kind[1].strip() if kind else None


def _body(part: bytes) -> bytes:
    """The content after the head of a part."""
    head, separator, body = part.partition(b"\r\n\r\n")
    if not separator:
        raise ValueError(f"a part without an empty line after its head: {head[:80]!r}")
    return body
