"""One value of many: quantiles, and what replicas have at one step."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.runs.stream.aggregates import AGGREGATES, over_replicas, quantile

VALUES = st.lists(st.integers(-(10**6), 10**6).map(float), min_size=1, max_size=30)


@given(VALUES)
def test_the_aggregates_are_those_of_statistics(values: list[float]) -> None:
    expected = {
        "median": statistics.median(values),
        "mean": statistics.fmean(values),
        "last": values[-1],
        "min": min(values),
        "max": max(values),
    }
    for name, value in expected.items():
        assert AGGREGATES[name](values) == pytest.approx(value, abs=1e-6)
    if len(values) > 1:
        cuts = statistics.quantiles(values, n=100, method="inclusive")
        assert AGGREGATES["p95"](values) == pytest.approx(cuts[94], abs=1e-6)
        assert quantile(values, 0.25) == pytest.approx(cuts[24], abs=1e-6)
    assert (quantile(values, 0), quantile(values, 1)) == (min(values), max(values))


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_one_replica_that_diverged_shows(aggregate: str) -> None:
    assert math.isnan(over_replicas([1.0, math.nan, 2.0], aggregate))
    assert over_replicas([1.0, math.inf], aggregate) == math.inf


def test_replicas_at_one_step_have_no_last() -> None:
    assert over_replicas([3.0, 1.0, 2.0], "last") == 2.0
    assert over_replicas([3.0, 1.0, 2.0], "max") == 3.0
