"""Cyclic redundancy checks that zlib does not have."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache


def reflected_crc(polynomial: int, bits: int) -> Callable[[bytes], bytes]:
    """A CRC whose bits are reflected, with all ones before and after; zlib has CRC-32 only."""
    ones = (1 << bits) - 1

    @cache
    def table() -> list[int]:
        values = []
        for value in range(256):
            for _ in range(8):
                value = (value >> 1) ^ (polynomial if value & 1 else 0)
            values.append(value)
        return values

    def digest(content: bytes) -> bytes:
        steps, crc = table(), ones
        for byte in content:
            crc = (crc >> 8) ^ steps[(crc ^ byte) & 0xFF]
        return (crc ^ ones).to_bytes(bits // 8, "big")

    return digest
