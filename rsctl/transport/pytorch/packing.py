"""Gradients of 8 bits: groups of 256 numbers with one scale, and the rounding errors between steps.

Groups begin with each parameter, so that a gradient's bits depend neither on the buckets nor on
their order. The error of a rounding is kept and added to the same gradient of the next step (error
feedback). A group with NaN or infinity becomes NaN as a whole, and leaves the kept errors alone: a
gradient scaler finds it and skips the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from rsctl.transport import native
from rsctl.transport.frames import AVG, FP8, GROUP_BYTES, GROUP_NUMBERS, INT8, SUM
from rsctl.transport.pytorch.host_buffers import host_copy

KINDS = {"int8": INT8, "fp8": FP8}
"""The compressions of 8 bits, and their dtypes on the wire."""

_LIMITS = {INT8: 127.0, FP8: 448.0}
_SMALLEST = 1e-30  # below it the inverse of a scale overflows


@dataclass
class Packing:
    """One bucket's way to 8 bits and back.

    `lengths` are the parts of the gradient, in numbers, each of which begins a group: parameters.
    `residual` has the gradient's rounding errors, in fp32.
    """

    kind: str
    lengths: Sequence[int]
    residual: torch.Tensor
    keeps: bool = False
    """Whether what is sent is kept, for workers that may have to reduce it themselves."""
    kept: torch.Tensor | None = field(default=None, repr=False)

    def pack(self, part: torch.Tensor) -> torch.Tensor:
        """The gradient as it travels, in the host's memory; updates the rounding errors."""
        numbers = part.detach().reshape(-1).to(torch.float32)
        packed = pack(numbers, self.residual, self.lengths, self.kind)
        if packed.device.type != "cpu":
            packed = host_copy(packed, torch.uint8)
        self.kept = packed.clone() if self.keeps else None
        return packed

    def unpack(self, packed: torch.Tensor, part: torch.Tensor) -> None:
        """Write a result over the gradient."""
        self.kept = None
        packed = packed.to(part.device, non_blocking=True)
        numbers = unpack(packed, self.lengths, self.kind)
        part.copy_(numbers.view(part.shape))


def pack(
    numbers: torch.Tensor, residual: torch.Tensor, lengths: Sequence[int], kind: str
) -> torch.Tensor:
    """Groups of the sum of both, on their device; the error of rounding becomes the residual."""
    core = native.library()
    if core is None or numbers.device.type != "cpu":
        return _pack_by_torch(numbers, residual, lengths, kind)
    packed = torch.empty(packed_bytes(lengths), dtype=torch.uint8)
    at, begin = packed.data_ptr(), 0
    for length in lengths:
        shift = 4 * begin
        pointers = numbers.data_ptr() + shift, residual.data_ptr() + shift
        core.rsctl_pack(at, *pointers, length, KINDS[kind])
        at, begin = at + _groups(length) * GROUP_BYTES, begin + length
    return packed


def unpack(packed: torch.Tensor, lengths: Sequence[int], kind: str) -> torch.Tensor:
    """The numbers of groups as fp32, on their device."""
    core = native.library()
    if core is None or packed.device.type != "cpu":
        return _unpack_by_torch(packed, lengths, kind)
    numbers = torch.empty(sum(lengths), dtype=torch.float32)
    at, begin = packed.data_ptr(), 0
    for length in lengths:
        core.rsctl_unpack(numbers.data_ptr() + 4 * begin, at, length, KINDS[kind])
        at, begin = at + _groups(length) * GROUP_BYTES, begin + length
    return numbers


def reduce(blocks: torch.Tensor, kind: str, average: bool) -> torch.Tensor:
    """The bytes that a reducer makes of one block of each rank: a row of `blocks` in the host."""
    op, dtype = (AVG if average else SUM), KINDS[kind]
    result = torch.empty(blocks.shape[1], dtype=torch.uint8)
    core = native.library()
    if core is not None:
        count = blocks.shape[1] // GROUP_BYTES * GROUP_NUMBERS
        core.rsctl_reduce_blocks(
            blocks.data_ptr(), len(blocks), count, dtype, op, result.data_ptr()
        )
        return result
    from rsctl.transport.sums import Accumulator

    rows = [bytes(row.tolist()) for row in blocks]
    total = Accumulator(rows[0], dtype)
    for row in rows[1:]:
        total.add(row)
    return result.copy_(torch.frombuffer(bytearray(total.result(op, len(rows))), dtype=torch.uint8))


def packed_bytes(lengths: Sequence[int]) -> int:
    """The bytes of a gradient as it travels."""
    return sum(map(_groups, lengths)) * GROUP_BYTES


def _groups(length: int) -> int:
    return -(-length // GROUP_NUMBERS)


def _padded(lengths: Sequence[int], source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Zeros for whole groups, and the places among them of the numbers."""
    places, begin = [], 0
    for length in lengths:
        places.append(torch.arange(begin, begin + length, device=source.device))
        begin += _groups(length) * GROUP_NUMBERS
    empty = torch.zeros(begin, dtype=torch.float32, device=source.device)
    return empty, torch.cat(places) if places else empty.long()


def _pack_by_torch(
    numbers: torch.Tensor, residual: torch.Tensor, lengths: Sequence[int], kind: str
) -> torch.Tensor:
    padded, places = _padded(lengths, numbers)
    padded[places] = numbers + residual
    whole = padded.view(-1, GROUP_NUMBERS)
    limit = _LIMITS[KINDS[kind]]
    largest = whole.abs().amax(1, keepdim=True)
    finite = largest.isfinite()
    travels = finite & (largest >= _SMALLEST)
    zero = torch.zeros_like(largest)
    scale = torch.where(travels, largest / limit, zero)
    scaled = torch.where(travels, whole * torch.where(travels, limit / largest, zero), zero)
    codes = _codes(scaled.clamp(-limit, limit), kind)
    errors = whole - codes.to(torch.float32) * scale
    kept = finite.expand_as(whole).reshape(-1)[places]
    residual.copy_(torch.where(kept, errors.view(-1)[places], residual))
    scale = torch.where(finite, scale, torch.full_like(scale, torch.nan))
    return torch.cat([scale.view(torch.uint8), codes.view(torch.uint8)], 1).view(-1)


def _codes(scaled: torch.Tensor, kind: str) -> torch.Tensor:
    if KINDS[kind] == FP8:
        return scaled.to(torch.float8_e4m3fn)
    return scaled.round().to(torch.int8)


def _unpack_by_torch(packed: torch.Tensor, lengths: Sequence[int], kind: str) -> torch.Tensor:
    groups = packed.view(-1, GROUP_BYTES)
    dtype = torch.float8_e4m3fn if KINDS[kind] == FP8 else torch.int8
    scale = groups[:, :4].contiguous().view(torch.float32)
    codes = groups[:, 4:].contiguous().view(dtype).to(torch.float32)
    _, places = _padded(lengths, packed)
    return (codes * scale).view(-1)[places]
