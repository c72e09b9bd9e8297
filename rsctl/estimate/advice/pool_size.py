"""How many reducers make the workers the bottleneck, and how many beat a ring. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from rsctl.estimate.catalog.sizing import reducers_for


def saturating_reducers(
    workers: int, worker_gbps: float, reducer_gbps: float, reducer_core_gbps: float | None = None
) -> int:
    """The least number of reducers at which the workers' cards limit a pool.

    M B_r >= N B_w, which is also Google's documented rule. `reducer_core_gbps` is the rate of a
    reducer's cores, if they are slower than its card.
    """
    return reducers_for(workers, worker_gbps, min(reducer_gbps, reducer_core_gbps or reducer_gbps))


def break_even_reducers(workers: int, card_ratio: float = 1.0) -> int:
    """The least number of reducers with which a pool alone is faster than a ring of the workers.

    M rho > N^2 / (2 (N-1)), with rho the reducer's card in units of a worker's; from
    max(1, N / (M rho)) < 2 (N-1) / N. Two workers gain nothing by any number: raises ValueError for
    them and for one.
    """
    if workers < 3:
        raise ValueError("a ring of two workers sends no more than a pool")
    least = Fraction(workers * workers, 2 * (workers - 1)) / Fraction(card_ratio)
    return math.floor(least) + 1


def sampled_counts(most: int, also: Iterable[int] = ()) -> list[int]:
    """Numbers of reducers to look at, up to `most`: all up to 16, then eight in each octave."""
    sampled = (round(2 ** (eighth / 8)) for eighth in range(8 * most.bit_length() + 1))
    counts = {*range(1, 17), *sampled, most, *also}
    return sorted(count for count in counts if 1 <= count <= most)
