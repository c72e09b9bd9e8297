"""Objects of Cloud Storage in the form of its answers: metadata, listings, ranges of bytes.

For an object that a container writes as a file, only its bytes and the time of writing are known.
Properties that a client sets are kept in memory, until the object is written again.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, NamedTuple, Optional

from rsctl.targets.managed.emulator.http import Reply
from rsctl.targets.vertex.emulator.crc32c import crc32c

_RANGE = re.compile(r"bytes=(?:(\d+)-(\d*)|-(\d+))")


_PLAIN = "application/octet-stream"
_OWN = frozenset(
    {
        *("contentType", "contentEncoding", "contentDisposition", "contentLanguage"),
        *("cacheControl", "metadata", "customTime"),
    }
)
_IGNORED = frozenset(
    {
        *("name", "bucket", "md5Hash", "crc32c", "kind", "id", "selfLink", "mediaLink", "etag"),
        *("generation", "metageneration", "size", "timeCreated", "updated", "storageClass"),
        *("timeStorageClassUpdated", "timeFinalized"),
    }
)
"""The properties that the service sets itself, and those that it checks at the upload."""


class Attributes(NamedTuple):
    """The properties that a client sets: for a generation, the number of changes, and the
    fields.
    """

    generation: int
    metageneration: int
    fields: dict[str, Any]


def writable(about: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a client sets, of an object resource. Raises ValueError for wrong ones,
    KeyError for those that would change what the service does and are not emulated.
    """
    fields: dict[str, Any] = {}
    for name, value in about.items():
        if name in _OWN:
            fields[name] = value
        elif name not in _IGNORED and value not in (None, False, [], {}):
            raise KeyError(name)
    custom = fields.get("metadata")
    if custom is not None and not isinstance(custom, dict):
        raise ValueError("Invalid value for metadata")
    others = (value for name, value in fields.items() if name != "metadata")
    texts = [*others, *(custom or {}).values()]
    if any(value is not None and not isinstance(value, str) for value in texts):
        raise ValueError("Invalid value: a text is expected")
    return fields


def patched(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields after a patch, in which null removes one; custom metadata is patched by key."""
    merged = {**fields, **changes}
    if isinstance(changes.get("metadata"), dict):
        custom = {**(fields.get("metadata") or {}), **changes["metadata"]}
        merged["metadata"] = {key: value for key, value in custom.items() if value is not None}
    return {name: value for name, value in merged.items() if value is not None}


def wrong_hash(content: bytes, hashes: Iterable[tuple[str, Any]]) -> Optional[str]:
    """The message for a hash of the client's that the content does not have; None if all fit."""
    for name, value in hashes:
        own = md5(content) if name == "MD5" else crc32c(content)
        if isinstance(value, str) and own is not None and value != own:
            shown = f'Provided {name} hash "{value[:60]}"'
            return f'{shown} doesn\'t match calculated {name} hash "{own}".'
    return None


def ranged_reply(content: bytes, wanted: str | None, kind: str = _PLAIN) -> Reply | None:
    """The bytes that a Range header asks for, or all; None if it begins behind the last."""
    found = _RANGE.fullmatch(wanted or "")
    if not found:
        return Reply(200, content, {"Content-Type": kind})
    size = len(content)
    if found[3]:
        first, last = max(size - int(found[3]), 0), size
    else:
        first, last = int(found[1]), int(found[2] or size)
    if first >= size:
        return None
    part = content[first : last + 1]
    where = f"bytes {first}-{first + len(part) - 1}/{size}"
    return Reply(206, part, {"Content-Range": where, "Content-Type": kind})


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


def metadata(bucket: str, name: str, about: Attributes, content: bytes) -> dict[str, Any]:
    """An object resource. A generation is the time at which it was written, in microseconds."""
    created = datetime.fromtimestamp(about.generation / 1e6, timezone.utc)
    time = created.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    version = f"{about.generation}/{about.metageneration}"
    checksum = _checksum(content)
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{name}/{about.generation}",
        "bucket": bucket,
        "name": name,
        "generation": str(about.generation),
        "metageneration": str(about.metageneration),
        "storageClass": "STANDARD",
        "size": str(len(content)),
        "md5Hash": md5(content),
        **({"crc32c": checksum} if checksum else {}),
        "etag": base64.b64encode(version.encode()).decode(),
        "timeCreated": time,
        "updated": time,
        "timeStorageClassUpdated": time,
        "contentType": _PLAIN,
        **about.fields,
    }


@lru_cache(maxsize=256)
def _checksum(content: bytes) -> str | None:
    return crc32c(content)


def md5(content: bytes) -> str:
    """The MD5 hash in base64, as in object resources."""
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
