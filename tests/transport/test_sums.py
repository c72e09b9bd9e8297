"""Sums: the Python engine against plain arithmetic, and the core against it, bit for bit."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.transport.frames import AVG, BF16, FP16, FP32, ITEM_BYTES, SUM
from rsctl.transport.native import library
from rsctl.transport.sums import Accumulator, narrow, quiet_arithmetic, widen

_INFINITY = {FP32: 0x7F800000, BF16: 0x7F80, FP16: 0x7C00}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    quiet_arithmetic()


def _python(blocks: list[bytes], dtype: int, op: int) -> bytes:
    accumulator = Accumulator(blocks[0], dtype)
    for block in blocks[1:]:
        accumulator.add(block)
    return bytes(accumulator.result(op, len(blocks)))


def _core(blocks: list[bytes], dtype: int, op: int) -> bytes:
    core = library()
    assert core is not None
    size = len(blocks[0])
    result = ctypes.create_string_buffer(size)
    joined = b"".join(blocks)
    core.rsctl_reduce_blocks(joined, len(blocks), size // ITEM_BYTES[dtype], dtype, op, result)
    return result.raw


def _without_nan(block: bytes, dtype: int) -> list[int]:
    """The bits; every NaN as the same one, since its payload is not specified."""
    bits = np.frombuffer(block, np.uint32 if dtype == FP32 else np.uint16).astype(np.int64)
    sign = 1 << (31 if dtype == FP32 else 15)
    return np.where((bits & ~sign) > _INFINITY[dtype], -1, bits).tolist()


@pytest.mark.skipif(not library(), reason="no core")
@given(
    st.sampled_from([FP32, BF16, FP16]),
    st.sampled_from([SUM, AVG]),
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
)
def test_the_core_computes_what_the_python_engine_computes(
    dtype: int, op: int, ranks: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    blocks = [random.bytes(131 * ITEM_BYTES[dtype]) for _ in range(ranks)]
    expected = _without_nan(_python(blocks, dtype, op), dtype)
    assert _without_nan(_core(blocks, dtype, op), dtype) == expected


@pytest.mark.skipif(not library(), reason="no core")
@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_the_core_widens_and_narrows_every_number(dtype: int) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).tobytes()
    assert _without_nan(_core([every], dtype, SUM), dtype) == _without_nan(every, dtype)


def test_fp16_is_averaged_before_it_is_narrowed() -> None:
    block = np.full(3, 30000, np.float16).tobytes()
    assert np.frombuffer(_python([block] * 8, FP16, AVG), np.float16).tolist() == [30000] * 3
    assert np.frombuffer(_python([block] * 8, FP16, SUM), np.float16).tolist() == [np.inf] * 3


def test_bf16_rounds_to_nearest_and_ties_to_even() -> None:
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800001], np.uint32)
    rounded = np.frombuffer(narrow(bits.view(np.float32), BF16), np.uint16)
    assert [hex(number) for number in rounded] == ["0x3f80", "0x3f82", "0x3f81", "0x7f80", "0x7fc0"]
    assert widen(rounded[:1].tobytes(), BF16).tolist() == [1.0]


def test_fp32_is_added_in_the_order_of_calls() -> None:
    blocks = [np.float32(x).tobytes() for x in (1e8, 1.0, -1e8)]
    assert np.frombuffer(_python(blocks, FP32, SUM), np.float32).tolist() == [0.0]
    turned = [blocks[0], blocks[2], blocks[1]]
    assert np.frombuffer(_python(turned, FP32, SUM), np.float32).tolist() == [1.0]
