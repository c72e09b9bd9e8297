"""The sizing rule, by the documentation's examples and at its edges."""

from __future__ import annotations

import pytest

from rsctl.estimate.catalog.sizing import reducers_for


@pytest.mark.parametrize(
    ("workers", "worker_gbps", "reducer_gbps", "reducers"),
    [
        (5, 100, 32, 16),  # Google's: 5 x n1-highmem-96 with 8 V100
        (8, 100, 32, 25),  # Google's: 8 x a2-megagpu-16g
        (1, 1000, 32, 32),
        (1, 1800, 32, 57),
        (2, 32, 32, 2),
        (3, 32, 32, 3),
        (2, 10, 32, 1),
        (3, 0.7, 0.3, 7),  # 2.1 / 0.3 is a little more than 7 in floats
        (10_000, 0.1, 0.1, 10_000),
    ],
)
def test_together_reducers_are_no_narrower_than_workers(
    workers: int, worker_gbps: float, reducer_gbps: float, reducers: int
) -> None:
    assert reducers_for(workers, worker_gbps, reducer_gbps) == reducers
