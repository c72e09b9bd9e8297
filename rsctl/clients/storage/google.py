"""Buckets of Cloud Storage, by its JSON API.

Uploads are resumable, in blocks that are a multiple of 256 KiB, and reads are Range requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import NoAnswer, next_page, no_answer
from rsctl.clients.google import Google, body_of, is_transient
from rsctl.clients.google_errors import error_message, google_error
from rsctl.clients.retries import RetryPolicy
from rsctl.clients.storage import (
    LoadedObject,
    ObjectChanged,
    StoredObject,
    Upload,
    hexadecimal,
)
from rsctl.findings import ExitCode, RsctlError, error

_BLOCK = 8 << 20
_READ = 4 << 20
_STREAMED = 1 << 20
_RESUME = 308
_RANGE = re.compile(r"bytes=0-(\d+)")


class GoogleBucket:
    """See rsctl.clients.storage.Bucket."""

    def __init__(
        self,
        endpoints: Endpoints,
        name: str,
        path: str | None = None,
        retries: RetryPolicy | None = None,
    ) -> None:
        self._google = Google(endpoints, retries=retries)
        self._retries = self._google.retries
        self._bucket, self._path = name, path
        self._base = endpoints.google_url("storage")

    def put(self, name: str, upload: Upload, announce: Callable[[], object] = bool) -> str:
        """See Bucket.put; the object's generation, a number as text."""
        generation = self._generation(name)
        if generation is None:
            announce()
            generation = self._upload(name, upload)
        return generation

    def replace(
        self, name: str, data: bytes, content_type: str, version: str | None = None
    ) -> None:
        """See Bucket.replace. A condition on generation 0 is that there is no object."""
        url = f"{self._base}/upload/storage/v1/b/{quote(self._bucket, '')}/o"
        condition = "" if version is None else f"&ifGenerationMatch={quote(version or '0', '')}"
        answer = self._google.request(
            "POST",
            f"{url}?uploadType=media&name={quote(name, '')}{condition}",
            ok=(200, 404, 412),
            path=self._path,
            headers={"Content-Type": content_type},
            data=data,
        )
        if answer.status_code == 404:
            raise self._no_bucket()
        if answer.status_code == 412:
            raise ObjectChanged(name)

    def load(self, name: str, most: int) -> LoadedObject | None:
        """See Bucket.load; the version is the generation."""
        answer = self._range(name, 0, most)
        if answer.status_code == 404:
            return None
        generation = str(answer.headers.get("X-Goog-Generation", ""))
        if answer.status_code == 416:  # an empty object has no range
            generation = generation or self._generation(name) or ""
            return LoadedObject(b"", generation)
        return LoadedObject(answer.content[:most], generation)

    def read(self, name: str, offset: int = 0) -> bytes:
        """See Bucket.read."""
        answer = self._range(name, offset, _READ)
        if answer.status_code in (404, 416):
            return b""
        content: bytes = answer.content
        return content if answer.status_code == 206 else content[offset:]

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        """See Bucket.objects."""
        url = f"{self._base}/storage/v1/b/{quote(self._bucket, '')}/o"
        query = {
            "prefix": prefix,
            "fields": "nextPageToken,items(name,size,generation,md5Hash,crc32c)",
        }
        while True:
            answer = self._google.request("GET", url, ok=(200, 404), path=self._path, params=query)
            if answer.status_code == 404:
                raise self._no_bucket()
            body = body_of(answer)
            for item in body.get("items") or ():
                yield _stored(item)
            token = next_page(
                urlsplit(url).netloc, body.get("nextPageToken"), query.get("pageToken")
            )
            if not token:
                return
            query["pageToken"] = token

    def digests(self, found: StoredObject) -> Mapping[str, str]:
        """See Bucket.digests. An object that was composed from other objects has no MD5."""
        return found.digests

    def stream(self, found: StoredObject, offset: int) -> Iterator[bytes]:
        """See Bucket.stream."""
        import requests
        import urllib3

        answer = self._google.request(
            "GET",
            f"{self._object(found.name)}?alt=media&generation={quote(found.version, '')}",
            ok=(200, 206, 404, 412, 416),
            path=self._path,
            # Otherwise objects stored as gzip would be unpacked in transit.
            headers={"Range": f"bytes={offset}-", "Accept-Encoding": "gzip"},
            stream=True,
        )
        try:
            if answer.status_code not in (200, 206):
                raise ObjectChanged(found.name)
            ahead = offset if answer.status_code == 200 else 0  # the range was passed over
            for block in answer.raw.stream(_STREAMED, decode_content=False):
                if len(block) > ahead:
                    yield block[ahead:]
                ahead = max(ahead - len(block), 0)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as problem:
            raise no_answer(urlsplit(self._base).netloc, str(problem)[:200]) from None
        finally:
            answer.close()

    def _range(self, name: str, offset: int, most: int) -> Any:
        """The answer for at most so many bytes of an object."""
        return self._google.request(
            "GET",
            f"{self._object(name)}?alt=media",
            ok=(200, 206, 404, 416),
            path=self._path,
            headers={"Range": f"bytes={offset}-{offset + most - 1}", "Accept-Encoding": "identity"},
        )

    def _object(self, name: str) -> str:
        return f"{self._base}/storage/v1/b/{quote(self._bucket, '')}/o/{quote(name, '')}"

    def _generation(self, name: str) -> str | None:
        answer = self._google.request("GET", self._object(name), ok=(200, 404), path=self._path)
        if answer.status_code == 404:
            return None
        return str(body_of(answer, "generation")["generation"])

    def _upload(self, name: str, upload: Upload) -> str:
        for attempt in range(1, self._retries.tries + 1):
            session = self._open_upload(name, upload)
            answer = self._send(session, upload) if session else None
            if answer is not None:
                return str(body_of(answer, "generation")["generation"])
            # 412: another process has just uploaded the same; 404, 410: this session has ended.
            if generation := self._generation(name):
                return generation
            self._retries.before_retry(attempt)
        raise self._given_up("")

    def _open_upload(self, name: str, upload: Upload) -> str | None:
        """The address for the blocks, or None if the object exists by now."""
        url = f"{self._base}/upload/storage/v1/b/{quote(self._bucket, '')}/o"
        answer = self._google.request(
            "POST",
            f"{url}?uploadType=resumable&ifGenerationMatch=0&name={quote(name, '')}",
            ok=(200, 404, 412),
            path=self._path,
            headers={
                "X-Upload-Content-Type": upload.content_type,
                "X-Upload-Content-Length": str(upload.size),
            },
            json={},
        )
        if answer.status_code == 404:
            raise self._no_bucket()
        if answer.status_code == 412:
            return None
        session = str(answer.headers.get("Location", ""))
        if urlsplit(session)[:2] != urlsplit(self._base)[:2]:
            message = f"Cloud Storage redirects the upload to another host: {session[:200]!r}"
            finding = error("cloud", message, "check the network and its proxy")
            raise RsctlError(ExitCode.REFUSED, finding)
        return session

    def _send(self, session: str, upload: Upload) -> Any:
        """The answer to the last block, or None if the session has ended. Raises NoAnswer."""
        sent, stalls, why = 0, 0, ""
        while stalls < self._retries.tries:
            answer = self._send_block(session, upload, sent)
            if interruption := _interruption(answer):
                why = f": {interruption}"
                self._retries.before_retry(stalls + 1)
                answer = self._put(session, f"bytes */{upload.size}", b"")
            if _interruption(answer):
                stalls += 1
                continue
            if answer.status_code in (200, 201):
                return answer
            if answer.status_code in (404, 410, 412):
                return None
            if answer.status_code != _RESUME:
                raise google_error(answer, self._path)
            kept = _kept(answer)
            stalls = 0 if kept > sent else stalls + 1
            sent = kept
        raise self._given_up(why)

    def _send_block(self, session: str, upload: Upload, start: int) -> Any:
        upload.file.seek(start)
        block = upload.file.read(_BLOCK)
        # An empty file has no first byte to name.
        sent = f"{start}-{start + len(block) - 1}" if block else "*"
        return self._put(session, f"bytes {sent}/{upload.size}", block)

    def _put(self, session: str, content_range: str, block: bytes) -> Any:
        try:
            return self._google.request(
                *("PUT", session),
                retry=False,
                ok=None,
                headers={"Content-Range": content_range},
                data=block,
            )
        except NoAnswer as problem:
            return problem

    def _given_up(self, why: str) -> NoAnswer:
        host = urlsplit(self._base).netloc
        return no_answer(host, f"the upload was interrupted repeatedly{why}")

    def _no_bucket(self) -> RsctlError:
        message = f"bucket {self._bucket} does not exist"
        remedy = (
            f"create it: `gcloud storage buckets create gs://{self._bucket}`, or use another bucket"
        )
        return RsctlError(ExitCode.REFUSED, error("bucket", message, remedy, self._path))


def _stored(item: Mapping[str, Any]) -> StoredObject:
    known = {"md5": item.get("md5Hash"), "crc32c": item.get("crc32c")}
    digests = {name: hexadecimal(value) for name, value in known.items() if value}
    return StoredObject(str(item["name"]), int(item["size"]), str(item["generation"]), digests)


def _interruption(answer: Any) -> str:
    """Why to ask how far the upload came; empty if it continues."""
    if isinstance(answer, NoAnswer):
        return answer.reason
    return error_message(answer) if is_transient(answer) or answer.status_code >= 500 else ""


def _kept(answer: Any) -> int:
    """How many bytes of an upload have arrived."""
    found = _RANGE.fullmatch(answer.headers.get("Range", ""))
    return int(found[1]) + 1 if found else 0
