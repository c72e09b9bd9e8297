"""The exact test of two sides: how many exchanges of runs differ at least as much as the sides do.

The statistic is the largest of several: the difference of the sides by each of the `Scores`, in
standard deviations of all exchanges, less its deduction. All exchanges have the same statistic
taken of them, so that p is exact for any noise.

Scores are integers here: equal differences are equal in any order of their sums.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, combinations
from operator import or_
from random import Random
from typing import NamedTuple

from rsctl.bench.scores import ROUNDING, all_scores
from rsctl.bench.sides import Sides

DRAWS = 20_000
_BELOW, _MOST_DRAWS = 4, 2_000_000
"""How many times finer than a level draws resolve it, and the most of them: some seconds."""
_ENOUGH = 1_000
"""Draws as low as the sides after which no further ones are made."""
SEED = 20_260_101

_UNIT = 1 << 40  # of a standard deviation
_TIE = 1 << 10  # units: what rounding can change of a sum
_LANE, _OFFSET = 64, 1 << 46  # of sums that are packed in one integer
_MOST_SUMS = 8_000  # of a part, all of which are listed: 8 MB of bits
_CHUNK = 10  # values of which all subsets are listed for draws
_LARGEST_HALF = 13  # values of one block, of which all subsets are listed

_Sums = list[list[int]]
"""By scores, the sums of the candidate's scores in each exchange of a part."""


class _Scored(NamedTuple):
    """A block: by scores the integers of its runs, the candidate's last; how many are its."""

    scores: list[list[int]]
    chosen: int

    @property
    def exchanges(self) -> int:
        return math.comb(len(self.scores[0]), self.chosen)


def p_within(blocks: Sequence[Sides], level: float = 1.0) -> float:
    """One-sided p of the candidate being lower, by exchanges of runs within their block.

    Where the exchanges are too many to count, 20,000 seeded draws stand for all, or as many as a p
    below `level` needs; that p is valid too, never below one in their number. 1 without values.
    """
    return p_of_any([blocks], level)


def p_of_any(measured: Sequence[Sequence[Sides]], level: float = 1.0) -> float:
    """One-sided p of the candidate being lower in any of several measurements of the same runs.

    An exchange exchanges runs with all that was measured of them, so that p is exact however the
    measurements depend on each other (Westfall and Young 1993). 1 if one has no values.
    """
    found: list[list[_Scored]] = []
    deductions: list[int] = []
    for blocks in measured:
        blocks = [block for block in blocks if all(block)]
        values = [value for block in blocks for side in block for value in side]
        if not values or not all(map(math.isfinite, values)):
            return 1.0
        size = max(map(abs, values)) or 1.0
        blocks = [Sides(*([value / size for value in side] for side in block)) for block in blocks]
        scored, deducted = _scored(blocks)
        found.append(scored)
        deductions += deducted
    if not deductions:
        return 1.0
    scored = [
        _Scored([scores for each in of_block for scores in each.scores], of_block[0].chosen)
        for of_block in zip(*found, strict=True)
    ]
    observed = [
        sum(sum(block.scores[which][-block.chosen :]) for block in scored)
        for which in range(len(deductions))
    ]
    lowest = min(map(sum, zip(observed, deductions, strict=True)))
    limits = [lowest - deduction + _TIE for deduction in deductions]
    parts = _parts(scored)
    if parts is None:
        finest = min(_MOST_DRAWS, math.ceil(_BELOW / level))
        return _p_by_draws(scored, limits, max(DRAWS, finest))
    as_low = sum(_count(left, right, limits) for left, right in parts)
    return min(1.0, as_low / math.prod(block.exchanges for block in scored))


def _scored(blocks: Sequence[Sides]) -> tuple[list[_Scored], list[int]]:
    """The blocks by scores that differ at all, and the deduction of each of the scores."""
    sides = Sides(*([value for block in blocks for value in block[side]] for side in (0, 1)))
    found: list[_Scored] = [_Scored([], len(block.candidate)) for block in blocks]
    deductions = []
    for values, deduction in all_scores(sides):
        before, after = iter(values[: len(sides.baseline)]), iter(values[len(sides.baseline) :])
        centred = [
            _centred([*(next(before) for _ in b.baseline), *(next(after) for _ in b.candidate)])
            for b in blocks
        ]
        spread = math.sqrt(
            math.fsum(_variance(v, len(b.candidate)) for v, b in zip(centred, blocks, strict=True))
        )
        if spread <= ROUNDING * max(map(abs, values)):
            continue
        for block, of_block in zip(found, centred, strict=True):
            block.scores.append([round(value / spread * _UNIT) for value in of_block])
        deductions.append(round(deduction * _UNIT))
    return found, deductions


def _centred(values: Sequence[float]) -> list[float]:
    middle = math.fsum(values) / len(values)
    return [value - middle for value in values]


def _variance(centred: Sequence[float], chosen: int) -> float:
    """The variance of the sum of so many values that are drawn from a block."""
    size = len(centred)
    return math.fsum(v * v for v in centred) * chosen * (size - chosen) / (size * (size - 1))


def _parts(blocks: Sequence[_Scored]) -> list[tuple[_Sums, _Sums]] | None:
    """All exchanges as pairs of parts, of which each exchange of one goes with each of the other.

    None if they are too many.
    """
    if len(blocks) == 1:
        return _parts_of_one(blocks[0])
    sizes = [block.exchanges for block in blocks]
    middle = min(
        range(1, len(sizes)),
        key=lambda index: max(math.prod(sizes[:index]), math.prod(sizes[index:])),
    )
    if max(math.prod(sizes[:middle]), math.prod(sizes[middle:])) > _MOST_SUMS:
        return None
    number = len(blocks[0].scores)
    return [(_sums(blocks[:middle], number), _sums(blocks[middle:], number))]


def _parts_of_one(block: _Scored) -> list[tuple[_Sums, _Sums]] | None:
    """The exchanges of one block by how many of its first half are of the candidate."""
    size = len(block.scores[0])
    half = size // 2
    if size - half > _LARGEST_HALF:
        return None
    return [
        (
            [_subset_sums(scores[:half], count) for scores in block.scores],
            [_subset_sums(scores[half:], block.chosen - count) for scores in block.scores],
        )
        for count in range(half + 1)
        if 0 <= block.chosen - count <= size - half
    ]


def _sums(blocks: Sequence[_Scored], number: int) -> _Sums:
    found = []
    for which in range(number):
        sums = [0]
        for block in blocks:
            chosen = _subset_sums(block.scores[which], block.chosen)
            sums = [total + part for total in sums for part in chosen]
        found.append(sums)
    return found


def _subset_sums(scores: Sequence[int], size: int) -> list[int]:
    return list(map(sum, combinations(scores, size)))


def _count(left: _Sums, right: _Sums, limits: Sequence[int]) -> int:
    """The exchanges of which a sum is at most its limit.

    A bit stands for each exchange of the right part: those that reach a limit are the first ones in
    order of their sums.
    """
    reached = [0] * len(left[0])
    for of_left, of_right, limit in zip(left, right, limits, strict=True):
        order = sorted(range(len(of_right)), key=of_right.__getitem__)
        ordered = [of_right[index] for index in order]
        first = list(accumulate((1 << index for index in order), or_, initial=0))
        for at, part in enumerate(of_left):
            reached[at] |= first[bisect_right(ordered, limit - part)]
    return sum(map(int.bit_count, reached))


def _p_by_draws(blocks: Sequence[_Scored], limits: Sequence[int], draws: int) -> float:
    """p by draws of exchanges. The sums by all scores are lanes of one integer.

    A lane of the difference keeps its highest bit if the sum is at most the limit. The draws end
    once 1,000 have been as low, which a p beyond 0.05 reaches sooner (Besag and Clifford 1991).
    """
    draw_sum = _drawing(blocks, Random(SEED).random)  # noqa: S311 - statistics
    shift = _OFFSET * sum(block.chosen for block in blocks)
    highest = 1 << (_LANE - 1)
    (limit,) = _packed([limits], shift + highest)
    bits = sum(highest << (_LANE * lane) for lane in range(len(limits)))
    as_low = 0
    for draw in range(1, draws + 1):
        as_low += (limit - draw_sum()) & bits != 0
        if as_low == _ENOUGH:
            return as_low / draw
    return (as_low + 1) / (draws + 1)


class _Chunk(NamedTuple):
    """Some runs of a block: the sums of their subsets by size; and, by how many of the candidate's
    runs are among these or later ones, the accumulated probabilities of the sizes.
    """

    sums: list[list[int]]
    sizes: list[list[float]]


def _drawing(blocks: Sequence[_Scored], random: Callable[[], float]) -> Callable[[], int]:
    """A function that draws an exchange, all with the same probability, and returns its sum.

    Of each chunk it draws how many runs are the candidate's, and then one subset of that size.
    """
    pools = [(block.chosen, _chunks(block)) for block in blocks]

    def draw_sum() -> int:
        total = 0
        for left, chunks in pools:
            for sums, sizes in chunks:
                size = bisect_right(sizes[left], random())
                subsets = sums[size]
                total += subsets[int(random() * len(subsets))]
                left -= size
        return total

    return draw_sum


def _chunks(block: _Scored) -> list[_Chunk]:
    packed = list(_packed(zip(*block.scores, strict=True), _OFFSET))
    found = []
    for start in range(0, len(packed), _CHUNK):
        chunk = packed[start : start + _CHUNK]
        later = len(packed) - start - len(chunk)
        sums = [_subset_sums(chunk, size) for size in range(len(chunk) + 1)]
        sizes = [_size_weights(len(chunk), later, left) for left in range(block.chosen + 1)]
        found.append(_Chunk(sums, sizes))
    return found


def _size_weights(size: int, later: int, left: int) -> list[float]:
    """By k, the probability that at most k of `left` runs are among `size`, the others `later`."""
    counts = [math.comb(size, k) * math.comb(later, left - k) for k in range(min(size, left) + 1)]
    total = sum(counts)
    return [part / total for part in accumulate(counts)] if total else []


def _packed(rows: Iterator[tuple[int, ...]] | list[Sequence[int]], offset: int) -> Iterator[int]:
    for row in rows:
        yield sum((value + offset) << (_LANE * lane) for lane, value in enumerate(row))
