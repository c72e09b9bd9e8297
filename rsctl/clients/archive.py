"""A file on its way to a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True)
class Archive:
    """A file to upload; `digest` is the SHA-256 of its content, in hexadecimal; size in bytes."""

    file: IO[bytes]
    size: int
    digest: str
    content_type: str = "application/zip"

    @property
    def name(self) -> str:
        """Content-addressed, so that an unchanged context is uploaded once."""
        return f"rsctl-context-{self.digest[:32]}.zip"
