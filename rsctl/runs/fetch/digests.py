"""Checksums of content as it arrives."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

_STRONGEST_FIRST = ("sha256", "sha1", "md5", "crc32c", "crc32")


class Digest:
    """The best known digest of some content that can be computed here.

    `algorithm` is None if there is none: then only the size can be checked.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self.algorithm: str | None = None
        self._expected = ""
        self._state: Any = None
        for name in _STRONGEST_FIRST:
            state = _new(name) if known.get(name) else None
            if state is not None:
                self.algorithm, self._expected, self._state = name, known[name], state
                return

    def update(self, block: bytes) -> None:
        """Take the next bytes."""
        if self._state is not None:
            self._state.update(block)

    @property
    def fits(self) -> bool:
        """Whether the content matches, as far as it can be checked."""
        return self._state is None or self._state.digest().hex() == self._expected


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, block: bytes) -> None:
        self._value = zlib.crc32(block, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


def _new(algorithm: str) -> Any:
    """The state of a new computation; None if this installation cannot do it."""
    if algorithm == "crc32":
        return _Crc32()
    if algorithm != "crc32c":
        return hashlib.new(algorithm, usedforsecurity=False)
    try:  # google-crc32c comes with Google's SDKs and not with rsctl
        return import_module("google_crc32c").Checksum()
    except ImportError:
        return None
