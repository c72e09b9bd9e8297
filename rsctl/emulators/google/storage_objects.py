"""Objects of Cloud Storage as its answers have them: metadata, listings, ranges of bytes."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

from rsctl.emulators.http import Reply

_RANGE = re.compile(r"bytes=(?:(\d+)-(\d*)|-(\d+))")


def ranged_reply(content: bytes, wanted: str | None) -> Reply | None:
    """The bytes that a Range header asks for, or all; None if it begins behind the last."""
    found = _RANGE.fullmatch(wanted or "")
    if not found:
        return Reply(200, content, {"Content-Type": "text/plain"})
    size = len(content)
    if found[3]:
        first, last = max(size - int(found[3]), 0), size
    else:
        first, last = int(found[1]), int(found[2] or size)
    if first >= size:
        return None
    part = content[first : last + 1]
    where = f"bytes {first}-{first + len(part) - 1}/{size}"
    return Reply(206, part, {"Content-Range": where, "Content-Type": "text/plain"})


def listed(names: list[str], prefix: str, delimiter: str) -> tuple[set[str], set[str]]:
    """The objects and the folders of a listing."""
    objects, folders = set(), set()
    for name in names:
        if not name.startswith(prefix):
            continue
        head, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
        if found:
            folders.add(prefix + head + found)
        else:
            objects.add(name)
    return objects, folders


def metadata(bucket: str, name: str, generation: int, content: bytes) -> dict[str, Any]:
    """An object resource."""
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{name}/{generation}",
        "bucket": bucket,
        "name": name,
        "generation": str(generation),
        "metageneration": "1",
        "size": str(len(content)),
        "md5Hash": md5(content),
    }


def md5(content: bytes) -> str:
    """The MD5 hash in base64, as object resources have it."""
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
