"""Object storage: one interface to buckets of Cloud Storage and S3."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, Protocol

from rsctl.findings import ExitCode, RsctlError, error


@dataclass(frozen=True)
class Upload:
    """A file to upload; `digest` is the SHA-256 of its content, in hexadecimal; size in bytes."""

    file: IO[bytes]
    size: int
    digest: str
    content_type: str = "application/zip"


class ObjectUrl(NamedTuple):
    """`gs://BUCKET/NAME` or `s3://BUCKET/NAME` in its parts."""

    scheme: str
    bucket: str
    name: str

    @classmethod
    def parse(cls, url: str) -> ObjectUrl:
        """A URL's parts; missing ones are empty."""
        scheme, _, path = url.partition("://")
        bucket, _, name = path.partition("/")
        return cls(scheme, bucket, name)


class StoredObject(NamedTuple):
    """An object as a list shows it: its size in bytes, and the name of its version.

    `digests` are the digests of its content in the list, in hexadecimal by algorithm.
    """

    name: str
    size: int
    version: str
    digests: Mapping[str, str] = {}


class LoadedObject(NamedTuple):
    """The whole content of a small object, and what its version is called."""

    data: bytes
    version: str


class ObjectChanged(RsctlError):
    """An object no longer exists in the version that was listed or read."""

    def __init__(self, name: str) -> None:
        message = f"{name[:200]!r} was replaced or removed while it was read"
        remedy = "run the command again after all other writers have finished"
        super().__init__(ExitCode.ENVIRONMENT, error("changed", message, remedy))


def hexadecimal(value: Any) -> str:
    """The hexadecimal digits of a checksum in base64; empty for any other text, such as a checksum
    of several parts.
    """
    try:
        return base64.b64decode(str(value or ""), validate=True).hex()
    except binascii.Error:
        return ""


class Bucket(Protocol):
    """One bucket. All methods raise RsctlError."""

    def put(self, name: str, upload: Upload, announce: Callable[[], object] = bool) -> str:
        """Upload a file under a content-addressed name; the object's version, empty if it has none.

        An object that already exists is not sent again; `announce` is called before sending.
        """

    def replace(
        self, name: str, data: bytes, content_type: str, version: str | None = None
    ) -> None:
        """Write a small object, replacing an existing one.

        With `version` only if the object still has that version; if it is empty, only if there is
        no object. Otherwise raises ObjectChanged; also if an earlier try of this call has written
        the object, and its answer was lost.
        """

    def load(self, name: str, most: int) -> LoadedObject | None:
        """A small object in one version, at most `most` bytes of it; None if there is none."""

    def read(self, name: str, offset: int = 0) -> bytes:
        """The content of an object after `offset`, at most 4 MiB; empty if there is none yet."""

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        """The objects whose names begin with a prefix, in the order of their names."""

    def digests(self, found: StoredObject) -> Mapping[str, str]:
        """All that the service knows of an object's content; empty if it has no checksum of it.

        Raises ObjectChanged.
        """

    def stream(self, found: StoredObject, offset: int) -> Iterator[bytes]:
        """An object's content from an offset below its size on, exactly as it is stored.

        Raises ObjectChanged, and NoAnswer if the connection is closed; then it may be called again.
        """
