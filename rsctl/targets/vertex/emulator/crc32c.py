"""CRC32C (Castagnoli), which Cloud Storage has of each object (RFC 3720, appendix B.4)."""

from __future__ import annotations

import base64
from typing import Optional

from rsctl.targets.managed.emulator.crc import reflected_crc

LONGEST = 1 << 20
"""Bytes of the largest object whose checksum is computed without the package google-crc32c."""

_digest = reflected_crc(0x82F63B78, 32)


def crc32c(content: bytes) -> Optional[str]:
    """The checksum in base64, big-endian; None for what would take too long here."""
    try:
        import google_crc32c

        digest = int(google_crc32c.value(content)).to_bytes(4, "big")
    except ImportError:
        if len(content) > LONGEST:
            return None
        digest = _digest(content)
    return base64.b64encode(digest).decode()
