"""Sums: the Python engine against plain arithmetic, and the core against it, bit for bit."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.transport.frames import (
    AVG,
    BF16,
    FP8,
    FP16,
    FP32,
    GROUP_BYTES,
    GROUP_NUMBERS,
    INT8,
    ITEM_BYTES,
    SUM,
)
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
    count = size // ITEM_BYTES[dtype] * (GROUP_NUMBERS if dtype in (INT8, FP8) else 1)
    core.rsctl_reduce_blocks(joined, len(blocks), count, dtype, op, result)
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


_GROUPED = pytest.mark.parametrize("dtype", [INT8, FP8])


def _groups(random: np.random.Generator, dtype: int) -> bytes:
    """Groups as a worker may send them: of any scale, of very small numbers, of zeros, of NaN."""
    scales = np.concatenate([10.0 ** random.integers(-30, 30, 6), [0, 1e-38, np.nan, np.inf]])
    items = random.integers(0, 127, (len(scales), GROUP_NUMBERS)).astype(np.uint8)
    items |= random.integers(0, 2, items.shape).astype(np.uint8) << 7
    parts = zip(scales.astype(np.float32), items, strict=True)
    return b"".join(scale.tobytes() + row.tobytes() for scale, row in parts)


def _comparable(block: bytes) -> list[tuple[str, bytes]]:
    starts = range(0, len(block), GROUP_BYTES)
    cut = [block[at : at + GROUP_BYTES] for at in starts]
    return [(str(np.frombuffer(group[:4], np.float32)[0]), group[4:]) for group in cut]


@pytest.mark.skipif(not library(), reason="no core")
@given(
    st.sampled_from([INT8, FP8]),
    st.sampled_from([SUM, AVG]),
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
)
def test_the_core_reduces_groups_as_the_python_engine_does(
    dtype: int, op: int, ranks: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    blocks = [_groups(random, dtype) for _ in range(ranks)]
    assert _comparable(_core(blocks, dtype, op)) == _comparable(_python(blocks, dtype, op))


@_GROUPED
def test_groups_are_rounded_without_a_mean_error(dtype: int) -> None:
    numbers = np.random.default_rng(1).normal(size=(400, GROUP_NUMBERS)).astype(np.float32)
    numbers[:, 0] = 5  # the largest number is exact, so that all groups have the same scale
    numbers[:, 1:] += np.float32(0.3)
    error = widen(bytes(narrow(numbers.reshape(-1), dtype)), dtype).reshape(numbers.shape) - numbers
    step = 5 / 127 if dtype == INT8 else 0.5  # the widest step between two codes
    assert abs(float(error.mean())) < 1e-3 < float(np.abs(error).max()) <= step


@_GROUPED
def test_numbers_that_have_a_code_of_their_own_are_exact(dtype: int) -> None:
    codes = np.arange(GROUP_NUMBERS, dtype=np.uint8)
    codes[[127, 128, 255]] = 0  # int8 has no -128 and fp8 two zeros and no NaN
    codes[200 if dtype == INT8 else 126] = {INT8: 0x81, FP8: 0x7E}[dtype]
    block = np.float32(1).tobytes() + codes.tobytes()
    numbers = widen(block, dtype)
    assert np.array_equal(widen(bytes(narrow(numbers, dtype)), dtype), numbers)


@_GROUPED
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_group_with_nan_or_infinity_is_nan_and_others_are_not(dtype: int, bad: float) -> None:
    numbers = np.ones(3 * GROUP_NUMBERS, np.float32)
    numbers[GROUP_NUMBERS + 7] = bad
    reduced = np.frombuffer(_python([bytes(narrow(numbers, dtype))] * 2, dtype, SUM), np.uint8)
    finite = np.isfinite(widen(reduced.tobytes(), dtype)).reshape(3, -1)
    assert finite.all(axis=1).tolist() == [True, False, True]
    assert not finite[1].any()


@_GROUPED
def test_zeros_and_numbers_too_small_for_a_scale_become_zero(dtype: int) -> None:
    numbers = np.full(GROUP_NUMBERS, 1e-35, np.float32)
    numbers[::2] = 0
    assert not widen(bytes(narrow(numbers, dtype)), dtype).any()
