"""Object storage: one interface to buckets of Cloud Storage and S3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, NamedTuple, Protocol


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
        """A URL's parts; those that it lacks are empty."""
        scheme, _, path = url.partition("://")
        bucket, _, name = path.partition("/")
        return cls(scheme, bucket, name)


class Bucket(Protocol):
    """One bucket. All methods raise RsctlError."""

    def put(self, name: str, upload: Upload, announce: Callable[[], object] = bool) -> str:
        """Have a file under a content-addressed name; the object's version, empty if it has none.

        What is there already is not sent again; `announce` is called before something is sent.
        """

    def replace(self, name: str, data: bytes, content_type: str) -> None:
        """Write a small object, over what is there."""

    def read(self, name: str, offset: int = 0) -> bytes:
        """What an object has beyond `offset`, at most 4 MiB; nothing if it is not there (yet)."""
