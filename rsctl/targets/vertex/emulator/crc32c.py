"""CRC32C (Castagnoli), which Cloud Storage has of each object (RFC 3720, appendix B.4)."""

from __future__ import annotations

import base64
from functools import cache
from typing import Optional

LONGEST = 1 << 20
"""Bytes of the largest object whose checksum is computed without the package google-crc32c."""

_POLYNOMIAL = 0x82F63B78


def crc32c(content: bytes) -> Optional[str]:
    """The checksum in base64, big-endian; None for what would take too long here."""
    try:
        import google_crc32c

        value = int(google_crc32c.value(content))
    except ImportError:
        if len(content) > LONGEST:
            return None
        value = _slowly(content)
    return base64.b64encode(value.to_bytes(4, "big")).decode()


def _slowly(content: bytes) -> int:
    table, value = _table(), 0xFFFFFFFF
    for byte in content:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


@cache
def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table
