"""The payload of a request to S3: its bytes without framing, checked against its checksums.

Sources: Amazon S3's user guide, "Checking object integrity" and "Transferring payloads with
trailing checksums"; botocore, httpchecksum.py.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Callable, Mapping
from xml.sax.saxutils import escape

from rsctl.targets.managed.emulator.crc import reflected_crc
from rsctl.targets.managed.emulator.http import Refused, Reply, Request

_CHUNK = re.compile(rb"([0-9a-fA-F]{1,15})(?:;.*)?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PREFIX = "x-amz-checksum-"


def error_xml(status: int, code: str, message: str) -> Reply:
    """An error of S3."""
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    )
    return Reply(status, body.encode(), {"Content-Type": "application/xml"})


def refused(status: int, code: str, message: str) -> Refused:
    """An error of S3, to be raised."""
    return Refused(error_xml(status, code, message))


def payload(request: Request) -> tuple[bytes, dict[str, str]]:
    """The bytes, and the headers of the checksums that came with them. Raises Refused."""
    content, trailers = _unframed(request)
    given = {**request.headers, **trailers}
    _check_md5(content, given.get("content-md5"))
    expected = given.get("x-amz-content-sha256", "")
    if _SHA256.fullmatch(expected) and hashlib.sha256(content).hexdigest() != expected:
        message = "The provided 'x-amz-content-sha256' header does not match what was computed."
        raise refused(400, "XAmzContentSHA256Mismatch", message)
    checksums = {}
    for name, algorithm in _ALGORITHMS.items():
        if (wanted := given.get(_PREFIX + name)) is None:
            continue
        if base64.b64encode(algorithm(content)).decode() != wanted.strip():
            message = f"The {name.upper()} you specified did not match the calculated checksum."
            raise refused(400, "BadDigest", message)
        checksums[_PREFIX + name] = wanted.strip()
    return content, checksums


def crc32(content: bytes) -> str:
    """The checksum that S3 has of an object for which none was sent."""
    return base64.b64encode(_ALGORITHMS["crc32"](content)).decode()


def md5(content: bytes) -> str:
    """In hexadecimal digits: the tag of an object that came in one piece."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _check_md5(content: bytes, wanted: str | None) -> None:
    if wanted is None:
        return
    try:
        digest = base64.b64decode(wanted, validate=True)
    except (binascii.Error, ValueError):
        digest = b""
    if len(digest) != 16:
        raise refused(400, "InvalidDigest", "The Content-MD5 you specified is not valid.")
    if digest.hex() != md5(content):
        message = "The Content-MD5 you specified did not match what we received."
        raise refused(400, "BadDigest", message)


def _unframed(request: Request) -> tuple[bytes, dict[str, str]]:
    """The body without the framing of `aws-chunked`, and the headers that follow it."""
    if not request.headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
        return request.body, {}
    content, rest = bytearray(), request.body
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        found = _CHUNK.fullmatch(head)
        if not found or int(found[1], 16) > len(rest):
            message = "The request body terminated unexpectedly"
            raise refused(400, "IncompleteBody", message)
        size = int(found[1], 16)
        if not size:
            break
        content += rest[:size]
        rest = rest[size + 2 :]
    lines = (line.partition(":") for line in rest.decode(errors="replace").split("\r\n"))
    return bytes(content), {name.lower(): value for name, colon, value in lines if colon}


_ALGORITHMS: Mapping[str, Callable[[bytes], bytes]] = {
    "crc32": lambda content: zlib.crc32(content).to_bytes(4, "big"),
    "crc32c": reflected_crc(0x82F63B78, 32),
    "crc64nvme": reflected_crc(0x9A6C9329AC4BC9B5, 64),
    "sha1": lambda content: hashlib.sha1(content, usedforsecurity=False).digest(),
    "sha256": lambda content: hashlib.sha256(content).digest(),
}
