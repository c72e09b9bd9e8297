"""The number of reducers that a job needs, by bandwidth. Pure."""

from __future__ import annotations

import math


def reducers_for(workers: int, worker_gbps: float, reducer_gbps: float) -> int:
    """The number of reducers whose total bandwidth is at least that of all workers; Gbit/s each.

    Google's rule for Reduction Server (its documentation, "Distributed training", best practices):
    5 workers of 100 Gbit/s with reducers of 32 are 16, and 8 of 100 are 25.
    """
    # Rounded first: a quotient that differs from a whole number only in the last bit of a float is
    # whole.
    return math.ceil(round(workers * worker_gbps / reducer_gbps, 9))
