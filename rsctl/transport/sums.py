"""Sums in fp32 of blocks of every dtype, bit for bit what the C++ core computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rsctl.transport import groups
from rsctl.transport.frames import AVG, BF16, FP8, FP16, INT8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_F4 = np.dtype(np.float32)
_F2 = np.dtype(np.float16)
_U2 = np.dtype(np.uint16)
_GROUPED = (INT8, FP8)
_QUIET = np.uint32(0x40)
_ODD = np.uint32(1)
_HALF = np.uint32(0x7FFF)
_SIXTEEN = np.uint32(16)


def quiet_arithmetic() -> None:
    """Let this thread's sums overflow and meet NaN without a warning, as gradients do."""
    np.seterr(over="ignore", invalid="ignore")


def widen(block: memoryview | bytes, dtype: int) -> Floats:
    """The block's numbers as fp32, exactly; shares the block's memory where that is fp32."""
    if dtype == BF16:
        wide: Floats = (np.frombuffer(block, _U2).astype(np.uint32) << _SIXTEEN).view(np.float32)
        return wide
    if dtype == FP16:
        return np.frombuffer(block, _F2).astype(np.float32)
    if dtype in _GROUPED:
        return groups.widen(block, dtype)
    return np.frombuffer(block, _F4)


def narrow(numbers: Floats, dtype: int) -> memoryview:
    """fp32 numbers as they travel: to nearest, ties to even; any NaN stays one.

    Numbers of 8 bits are rounded as `groups` says.
    """
    if dtype == BF16:
        return _to_bf16(numbers).view(np.uint8).data
    if dtype == FP16:
        return numbers.astype(_F2).view(np.uint8).data
    if dtype in _GROUPED:
        return groups.narrow(numbers, dtype)
    return numbers.view(np.uint8).data


def _to_bf16(numbers: Floats) -> NDArray[np.uint16]:
    bits = numbers.view(np.uint32)
    rounded = (bits + (_HALF + ((bits >> _SIXTEEN) & _ODD))) >> _SIXTEEN
    cut = (bits >> _SIXTEEN) | _QUIET
    kept: NDArray[np.uint16] = np.where(np.isnan(numbers), cut, rounded).astype(np.uint16)
    return kept


class Accumulator:
    """The sum of one block over ranks, to be added in their order."""

    def __init__(self, first: memoryview | bytes, dtype: int) -> None:
        self._dtype = dtype
        self._sum = np.array(widen(first, dtype), dtype=np.float32)

    def add(self, block: memoryview | bytes) -> None:
        """Add the next rank's block."""
        np.add(self._sum, widen(block, self._dtype), out=self._sum)

    def result(self, op: int, ranks: int) -> memoryview:
        """The reduced block as it travels: averaged, then narrowed."""
        if op == AVG:
            np.divide(self._sum, np.float32(ranks), out=self._sum)
        return narrow(self._sum, self._dtype)
