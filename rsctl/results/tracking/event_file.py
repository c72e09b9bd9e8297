"""TensorBoard's event files: TFRecords of `tensorflow.Event`, written without TensorFlow."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache

_POLYNOMIAL = 0x82F63B78
_DT_STRING = 7


def version_record(seconds: float) -> bytes:
    """The record that every event file begins with."""
    return record(_event(seconds, 0, _text(3, "brain.Event:2")))


def scalar_record(seconds: float, step: int, tag: str, value: float) -> bytes:
    """A record of one value; TensorBoard keeps it in single precision."""
    single = struct.pack("<f", _single(value))
    return record(_event(seconds, step, _summary(tag, b"\x15" + single)))


def text_record(seconds: float, tag: str, markdown: str) -> bytes:
    """A record of a text for the text plugin, which shows it as Markdown without its HTML."""
    shape = _message(2, _message(2, _number(1, 1)))  # one dimension of size 1
    tensor = _number(1, _DT_STRING) + shape + _text(8, markdown)
    plugin = _message(1, _text(1, "text"))
    return record(_event(seconds, 0, _summary(tag, _message(8, tensor) + _message(9, plugin))))


def as_table(fields: Iterable[tuple[str, object]]) -> str:
    """Names and values as a block of code, in which Markdown has no meaning."""
    rows = [f"    {name}: {' '.join(str(value).split())}" for name, value in fields]
    return "\n".join(rows) or "    none"


def as_code(text: str) -> str:
    """A text as a block of code."""
    return "\n".join(f"    {line}" for line in text.splitlines()) or "    none"


def record(data: bytes) -> bytes:
    """A TFRecord: length, its checksum, data, its checksum."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, _masked(length), data, _masked(data)))


def crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) of some bytes."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    """A checksum in the form of TFRecords, since a CRC of data with CRCs in it would be weak."""
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


def _event(seconds: float, step: int, rest: bytes) -> bytes:
    return b"\x09" + struct.pack("<d", seconds) + (_number(2, step) if step else b"") + rest


def _summary(tag: str, value: bytes) -> bytes:
    return _message(5, _message(1, _text(1, tag) + value))


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode(errors="replace"))


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number & (1 << 64) - 1)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _single(value: float) -> float:
    """A value that single precision can hold: a value that is too large becomes infinite."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value
