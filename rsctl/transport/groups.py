"""Groups of 256 numbers of 8 bits with one fp32 scale, bit for bit as the C++ core has them.

A reducer rounds a sum up or down by a hash of the number and its place, so that the mean error is
zero. The hash needs no state and no counter: equal sums give equal results on any reducer, in any
engine, and after a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rsctl.transport.frames import GROUP_NUMBERS, INT8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Bits = NDArray[np.uint32]

_GROUP = np.dtype([("scale", "<f4"), ("items", "u1", (GROUP_NUMBERS,))])
_SMALLEST = np.float32(1e-30)  # below it the inverse of a scale overflows
_INT8_LIMIT, _FP8_LIMIT = np.float32(127), np.float32(448)
_MAGNITUDE, _INFINITY = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)
_SMALLEST_NORMAL_FP8 = np.uint32(0x3C800000)
_PLACES = np.arange(GROUP_NUMBERS, dtype=np.uint32) * np.uint32(0x9E3779B9)


def _fp8_values() -> Floats:
    code = np.arange(256)
    exponent, mantissa = code >> 3 & 15, code & 7
    subnormal = mantissa * 2.0**-9
    value = np.where(exponent, (1 + mantissa / 8) * 2.0 ** (exponent - 7), subnormal)
    value[127::128] = 480  # NaN in E4M3; scaled groups do not use it, and the core takes it so
    return np.where(code & 0x80, -value, value).astype(np.float32)


_FP8 = _fp8_values()


def widen(block: memoryview | bytes, dtype: int) -> Floats:
    """The numbers of whole groups as fp32."""
    groups = np.frombuffer(block, _GROUP)
    if dtype == INT8:
        items = groups["items"].view(np.int8).astype(np.float32)
    else:
        items = _FP8[groups["items"]]
    wide: Floats = items * groups["scale"][:, None]
    return wide.reshape(-1)


def narrow(numbers: Floats, dtype: int) -> memoryview:
    """Whole groups as they travel. A group with NaN or infinity becomes NaN as a whole."""
    limit = _INT8_LIMIT if dtype == INT8 else _FP8_LIMIT
    whole = numbers.reshape(-1, GROUP_NUMBERS)
    most = (whole.view(np.uint32) & _MAGNITUDE).max(axis=1, initial=0)
    largest = most.view(np.float32)
    travels = (most < _INFINITY) & (largest >= _SMALLEST)
    with np.errstate(all="ignore"):
        scale = np.where(travels, largest / limit, np.float32(0))
        inverse = np.where(travels, limit / largest, np.float32(0))
        scaled = np.where(travels[:, None], whole * inverse[:, None], np.float32(0))
    random = _hash(whole.view(np.uint32))
    made = np.empty(len(whole), _GROUP)
    made["scale"] = np.where(most < _INFINITY, scale, np.float32(np.nan))
    made["items"] = (_to_int8 if dtype == INT8 else _to_fp8)(scaled, random)
    return made.view(np.uint8).data


def _hash(bits: Bits) -> Bits:
    h = bits ^ _PLACES
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B)
    hashed: Bits = h ^ (h >> np.uint32(16))
    return hashed


def _part(random: Bits) -> Floats:
    """From 0 to 1, in steps of 2^-16: few enough for an exact sum with a scaled number."""
    part: Floats = (random >> np.uint32(16)).astype(np.float32) * np.float32(1 / 65536)
    return part


def _to_int8(scaled: Floats, random: Bits) -> NDArray[np.uint8]:
    rounded = (scaled + np.float32(128) + _part(random)).astype(np.int32) - 128
    items: NDArray[np.uint8] = np.clip(rounded, -127, 127).astype(np.int8).view(np.uint8)
    return items


def _to_fp8(scaled: Floats, random: Bits) -> NDArray[np.uint8]:
    bits = scaled.view(np.uint32)
    magnitude = bits & _MAGNITUDE
    is_small = magnitude < _SMALLEST_NORMAL_FP8
    normal = ((magnitude + (random >> np.uint32(12))) >> np.uint32(20)) - np.uint32(120 << 3)
    small = np.where(is_small, magnitude, np.uint32(0)).view(np.float32) * np.float32(512)
    subnormal = (small + _part(random)).astype(np.uint32)
    code = np.minimum(np.where(is_small, subnormal, normal), np.uint32(0x7E))
    sign = (bits >> np.uint32(24)) & np.uint32(0x80)
    items: NDArray[np.uint8] = (code | sign).astype(np.uint8)
    return items
