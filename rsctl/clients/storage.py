"""Cloud Storage, as far as rsctl needs it: upload a file once, read an object as it grows.

By its JSON API: resumable uploads in blocks that are a multiple of 256 KiB, and Range requests.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlsplit

from rsctl.clients.archive import Archive
from rsctl.clients.google import Google, Lost, endpoint, unreachable
from rsctl.clients.google_errors import refused
from rsctl.clients.pace import Pace
from rsctl.findings import ExitCode, RsctlError, error

STAGING = "targets.vertex.staging"
"""The field that names the bucket."""

_BLOCK = 8 << 20
_READ = 4 << 20
_RESUME = 308
_RANGE = re.compile(r"bytes=0-(\d+)")


class Storage:
    """One bucket."""

    def __init__(self, google: Google, bucket: str, pace: Pace) -> None:
        self._google = google
        self._bucket = bucket
        self._pace = pace
        self._base = endpoint("storage")

    def put(self, name: str, archive: Archive) -> str:
        """Have the archive under a content-addressed name; its generation, a number as text.

        What is there already is not sent again. Raises RsctlError.
        """
        return self._generation(name) or self._upload(name, archive)

    def replace(self, name: str, data: bytes, content_type: str) -> None:
        """Write a small object, over what is there. Raises RsctlError."""
        url = f"{self._base}/upload/storage/v1/b/{quote(self._bucket, '')}/o"
        answer = self._google.call(
            "POST",
            f"{url}?uploadType=media&name={quote(name, '')}",
            ok=(200, 404),
            headers={"Content-Type": content_type},
            data=data,
        )
        if answer.status_code == 404:
            raise _no_bucket(self._bucket)

    def read(self, name: str, offset: int) -> bytes:
        """What an object has beyond `offset`, at most 4 MiB; nothing if it is not there yet."""
        answer = self._google.call(
            "GET",
            f"{self._object(name)}?alt=media",
            ok=(200, 206, 404, 416),
            path=STAGING,
            headers={
                "Range": f"bytes={offset}-{offset + _READ - 1}",
                "Accept-Encoding": "identity",
            },
        )
        if answer.status_code in (404, 416):
            return b""
        content: bytes = answer.content
        return content if answer.status_code == 206 else content[offset:]

    def _object(self, name: str) -> str:
        return f"{self._base}/storage/v1/b/{quote(self._bucket, '')}/o/{quote(name, '')}"

    def _generation(self, name: str) -> str | None:
        answer = self._google.call("GET", self._object(name), ok=(200, 404), path=STAGING)
        return str(answer.json()["generation"]) if answer.status_code == 200 else None

    def _upload(self, name: str, archive: Archive) -> str:
        for attempt in range(1, self._pace.tries + 1):
            session = self._open_upload(name, archive)
            answer = self._send(session, archive) if session else None
            if answer is not None:
                return str(answer.json()["generation"])
            # 412: somebody else has just uploaded the same; 404, 410: this session has ended.
            if generation := self._generation(name):
                return generation
            self._pace.before_retry(attempt)
        raise unreachable(self._base, Lost("the upload is interrupted again and again"))

    def _open_upload(self, name: str, archive: Archive) -> str | None:
        """The address that the blocks go to, or None if the object has come to be."""
        url = f"{self._base}/upload/storage/v1/b/{quote(self._bucket, '')}/o"
        answer = self._google.call(
            "POST",
            f"{url}?uploadType=resumable&ifGenerationMatch=0&name={quote(name, '')}",
            ok=(200, 404, 412),
            path=STAGING,
            headers={
                "X-Upload-Content-Type": archive.content_type,
                "X-Upload-Content-Length": str(archive.size),
            },
            json={},
        )
        if answer.status_code == 404:
            raise _no_bucket(self._bucket)
        if answer.status_code == 412:
            return None
        session = str(answer.headers.get("Location", ""))
        if urlsplit(session)[:2] != urlsplit(self._base)[:2]:
            message = f"Cloud Storage sends the upload to another host: {session[:200]!r}"
            finding = error("cloud", message, "check the network and its proxy")
            raise RsctlError(ExitCode.REFUSED, finding)
        return session

    def _send(self, session: str, archive: Archive) -> Any:
        """The answer to the last block, or None if the session has ended before."""
        sent, stalls = 0, 0
        while stalls < self._pace.tries:
            answer = self._send_block(session, archive, sent)
            if _is_transient(answer):
                stalls += 1
                self._pace.before_retry(stalls)
                answer = self._put(session, f"bytes */{archive.size}", b"")
            if _is_transient(answer):
                continue
            if answer.status_code in (200, 201):
                return answer
            if answer.status_code in (404, 410, 412):
                return None
            if answer.status_code != _RESUME:
                raise refused(answer, STAGING)
            kept = _kept(answer)
            stalls = 0 if kept > sent else stalls + 1
            sent = kept
        return None

    def _send_block(self, session: str, archive: Archive, start: int) -> Any:
        archive.file.seek(start)
        block = archive.file.read(_BLOCK)
        return self._put(session, f"bytes {start}-{start + len(block) - 1}/{archive.size}", block)

    def _put(self, session: str, content_range: str, block: bytes) -> Any:
        try:
            return self._google.once(
                "PUT", session, headers={"Content-Range": content_range}, data=block
            )
        except Lost:
            return None


def _is_transient(answer: Any) -> bool:
    """Whether to ask how far the upload came; None is a lost answer."""
    return answer is None or answer.status_code in (408, 429) or answer.status_code >= 500


def _kept(answer: Any) -> int:
    """How many bytes of an upload have arrived."""
    found = _RANGE.fullmatch(answer.headers.get("Range", ""))
    return int(found[1]) + 1 if found else 0


def _no_bucket(bucket: str) -> RsctlError:
    message = f"there is no bucket {bucket}"
    remedy = f"create it: `gcloud storage buckets create gs://{bucket}`, or name another"
    return RsctlError(ExitCode.REFUSED, error("bucket", message, remedy, STAGING))
