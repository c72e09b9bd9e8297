"""Paths on this machine for untrusted names of objects and of members of archives.

A part of a name that is not valid for a file, or would lead elsewhere, is written with percent
signs, as in URLs. Conflicting names get `~` and a hash. Pure.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

_LONGEST = 255  # bytes of one part, on the usual file systems
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_PART_FILE = re.compile(r"\.[0-9a-f]{16}\.part")


def part_file(path: str) -> str:
    """The path of a file's content until it is complete."""
    folder, _, _ = path.rpartition("/")
    name = f".{_hash(path)}.part"
    return f"{folder}/{name}" if folder else name


def assign_paths(names: Iterable[str], folds_case: bool) -> dict[str, str]:
    """A relative path for each name, no two the same, and none a folder of another's.

    `folds_case` is whether `A` and `a` are one file.
    """
    mapped = {name: folder_path(name) for name in names}
    folders = {
        _key(path[:at], folds_case)
        for path in mapped.values()
        for at in range(len(path))
        if path[at] == "/"
    }
    taken: set[str] = set()
    assigned = {}
    for name in sorted(mapped, key=lambda name: (mapped[name] != name, name)):
        path, salt = mapped[name], 0
        while _key(path, folds_case) in taken or _key(path, folds_case) in folders:
            suffix = _hash(f"{name}{salt or ''}")[:8]
            path, salt = f"{_shortened(mapped[name], len(suffix))}~{suffix}", salt + 1
        taken.add(_key(path, folds_case))
        assigned[name] = path
    return assigned


def folder_path(name: str) -> str:
    """The path of a folder that files are in, by its name."""
    return "/".join(_local(part) for part in name.split("/"))


def _local(part: str) -> str:
    """A part of a name as the name of a file or folder."""
    if not part:
        return "%2F"
    if part in (".", ".."):
        return part.replace(".", "%2E")
    if _PART_FILE.fullmatch(part.lower()):
        part = f"%2E{part[1:]}"
    part = _CONTROL.sub(_escaped, part)
    if len(part.encode()) > _LONGEST:
        part = f"{part.encode()[:200].decode(errors='ignore')}~{_hash(part)}"
    return part


def _escaped(found: re.Match[str]) -> str:
    """Percent-encode a character; a byte that is not UTF-8, in Python a surrogate, as that byte."""
    is_byte = "\udc80" <= found[0] <= "\udcff"
    encoded = found[0].encode(errors="surrogateescape" if is_byte else "surrogatepass")
    return "".join(f"%{byte:02X}" for byte in encoded)


def _shortened(path: str, length: int) -> str:
    """A path whose last part has space for a suffix of so many characters."""
    folder, slash, last = path.rpartition("/")
    most = _LONGEST - length - 1
    return folder + slash + last.encode()[:most].decode(errors="ignore")


def _key(path: str, folds_case: bool) -> str:
    """Equal for paths that are one file."""
    return unicodedata.normalize("NFC", path).casefold() if folds_case else path


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
