"""Reads a shared library's dependencies from its ELF file: nothing is loaded, nothing runs.

It supports the layout of the System V ABI, 64 bits, little-endian, for machines with GPUs.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

_MAGIC = b"\x7fELF\x02\x01"
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 0, 1, 5, 15, 29


class Needs(NamedTuple):
    """The libraries that a file needs, and the directories that it adds to the loader's search.

    `rpath` comes before LD_LIBRARY_PATH and `runpath` after it.
    """

    libraries: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int


def machine(path: str) -> bytes | None:
    """The processor that a library is for, from its header; None if it is not a library."""
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except OSError:
        return None
    return head[4:6] + head[18:20] if len(head) == 20 and head.startswith(_MAGIC[:4]) else None


def read_needs(path: str) -> Needs:
    """The libraries that a library needs; empty if the file is not such a library, or is
    damaged.
    """
    try:
        with open(path, "rb") as file, _map(file.fileno()) as image:
            return _read_needs(image, os.path.dirname(os.path.realpath(path)))
    except (OSError, ValueError, struct.error):
        return Needs()


def search(path: str, pattern: bytes) -> Iterator[bytes]:
    """All that the pattern's first group matches in a file; nothing if it cannot be read.

    Some of these files have a gigabyte: one that is asked for the first match only stops there.
    """
    with suppress(OSError, ValueError), open(path, "rb") as file, _map(file.fileno()) as image:
        for match in re.finditer(pattern, image):
            yield match[1]


def _map(descriptor: int) -> mmap.mmap:
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)


def _read_needs(image: mmap.mmap, origin: str) -> Needs:
    if image[: len(_MAGIC)] != _MAGIC:
        return Needs()
    segments = _segments(image)
    entries = [entry for segment in segments for entry in _dynamic(image, segment)]
    tables = [value for tag, value in entries if tag == _DT_STRTAB]
    if not tables:
        return Needs()
    strings = _file_offset(segments, tables[0])

    def texts(wanted: int) -> list[str]:
        return [_text(image, strings + value) for tag, value in entries if tag == wanted]

    def folders(wanted: int) -> tuple[str, ...]:
        paths = [folder for text in texts(wanted) for folder in text.split(":") if folder]
        return tuple(re.sub(r"\$ORIGIN|\$\{ORIGIN\}", lambda _: origin, path) for path in paths)

    return Needs(tuple(texts(_DT_NEEDED)), folders(_DT_RPATH), folders(_DT_RUNPATH))


def _segments(image: mmap.mmap) -> list[_Segment]:
    (table,) = struct.unpack_from("<Q", image, 0x20)
    size, count = struct.unpack_from("<HH", image, 0x36)
    segments = []
    for index in range(count):
        kind, _, offset, address, _, length = struct.unpack_from(
            "<IIQQQQ", image, table + index * size
        )
        segments.append(_Segment(kind, offset, address, length))
    return segments


def _dynamic(image: mmap.mmap, segment: _Segment) -> list[tuple[int, int]]:
    """The tags and values of a dynamic segment; of any other, none."""
    if segment.kind != _PT_DYNAMIC:
        return []
    entries = []
    for offset in range(segment.offset, min(segment.offset + segment.size, len(image)), 16):
        tag, value = struct.unpack_from("<qQ", image, offset)
        if tag == _DT_NULL:
            break
        entries.append((tag, value))
    return entries


def _file_offset(segments: list[_Segment], address: int) -> int:
    """Where in the file an address is. Raises ValueError if no segment has it."""
    for segment in segments:
        if segment.kind == _PT_LOAD and 0 <= address - segment.address < segment.size:
            return segment.offset + address - segment.address
    raise ValueError("an address outside of the file")


def _text(image: mmap.mmap, offset: int) -> str:
    return image[offset : max(offset, image.find(b"\0", offset))].decode(errors="replace")
