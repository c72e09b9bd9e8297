"""Exact tests, intervals and effects of two sides that ran in turn, paired by their repetition.

Each repetition is a pair: one run of the baseline and one of the candidate, one after the other.
Two successive repetitions are a block, whose four runs go A B B A or B A A B
(`rsctl.bench.schedule`). A block's runs are exchanged only with each other, so that a level that
several runs share (drift, a machine, an hour) is on both sides of every exchange. Pure, as
`rsctl.bench.stats` is.

A block has two repetitions, not one: the exchange of single pairs needs five repetitions to show
anything, and finds less (`python -m benchmarks.gate` has the figures).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from statistics import median
from typing import NamedTuple, Optional

from rsctl.bench.sides import Sides
from rsctl.bench.stats import by_baseline, by_both, interval_of, mean_of_row, pooled_spread


class PairedCell(NamedTuple):
    """One cell: by repetition a value of each side, None if the run has no data, and its block."""

    baseline: Sequence[Optional[float]]
    candidate: Sequence[Optional[float]]
    blocks: Sequence[Hashable]

    @property
    def known(self) -> Sides:
        """The values of the repetitions that have both."""
        pairs = [
            (before, after)
            for before, after in zip(self.baseline, self.candidate, strict=True)
            if before is not None and after is not None
        ]
        return Sides([before for before, _ in pairs], [after for _, after in pairs])


Blocks = Sequence[Sides]
"""The values of each block: as many of the baseline as of the candidate."""


def block_numbers(repetitions: int) -> list[int]:
    """The block of each repetition: two make one, and an odd last one joins the block before."""
    last = max(0, repetitions // 2 - 1)
    return [min(repetition // 2, last) for repetition in range(repetitions)]


def combine_pairs(
    cells: Sequence[PairedCell], scale: Callable[[Sides], float] | None
) -> list[Sides]:
    """The blocks of one value per repetition: the mean over the cells, each divided by its `scale`.

    Only repetitions in which every cell has both values count. The values are not finite where a
    scale is zero.
    """
    known = [cell.known for cell in cells]
    if not known or not all(sides.baseline for sides in known):
        return []
    scales = [scale(sides) if scale else 1.0 for sides in known]
    blocks: dict[Hashable, tuple[list[float], list[float]]] = {}
    for repetition in range(min(len(cell.blocks) for cell in cells)):
        before = [cell.baseline[repetition] for cell in cells]
        after = [cell.candidate[repetition] for cell in cells]
        if None in before or None in after:
            continue
        block = blocks.setdefault(tuple(cell.blocks[repetition] for cell in cells), ([], []))
        block[0].append(mean_of_row(before, scales))
        block[1].append(mean_of_row(after, scales))
    return [Sides(*block) for block in blocks.values()]


def effect(cells: Sequence[PairedCell], is_relative: bool = True) -> float | None:
    """The median of all differences of two runs of one block, one of each side.

    Relative to the medians of the baselines or as an amount; None if a median is zero.
    """
    found = _differences(_for_effect(cells, is_relative))
    middle = median(found) if found else math.inf
    return middle if math.isfinite(middle) else None


def interval(cells: Sequence[PairedCell], is_relative: bool = True) -> tuple[float, float] | None:
    """The 90 % interval of `effect`; None if the number of repetitions cannot give one.

    Its ends are two of the ordered differences, chosen by the exact distribution of the sum over
    the blocks of Mann and Whitney's U. Three repetitions are the fewest.
    """
    blocks = _for_effect(cells, is_relative)
    return interval_of(_differences(blocks), blocks)


def smallest_p(blocks: Blocks) -> float:
    """The least one-sided p that these blocks can reach: one exchange out of all."""
    sizes = [len(block.candidate) for block in blocks]
    return 1 / math.prod(math.comb(2 * size, size) for size in sizes)


def smallest_p_of(repetitions: int) -> float:
    """The least one-sided p that so many complete repetitions can reach."""
    numbers = block_numbers(repetitions)
    sizes = [numbers.count(block) for block in dict.fromkeys(numbers)]
    return 1 / math.prod(math.comb(2 * size, size) for size in sizes)


def spread(cells: Sequence[PairedCell], is_relative: bool) -> float | None:
    """Standard deviation of a run within its block, in the unit of `effect`; None if unknown."""
    return pooled_spread([side for block in _for_effect(cells, is_relative) for side in block])


def for_test(cells: Sequence[PairedCell], is_relative: bool) -> list[Sides]:
    """The blocks that a test compares."""
    return combine_pairs(cells, by_both if is_relative else None)


def _for_effect(cells: Sequence[PairedCell], is_relative: bool) -> list[Sides]:
    return combine_pairs(cells, by_baseline if is_relative else None)


def _differences(blocks: Blocks) -> list[float]:
    return [after - before for b in blocks for after in b.candidate for before in b.baseline]
