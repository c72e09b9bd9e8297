"""Costs and goodput in the words of `plan`, `status` and `list`."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.api import Goodput, PlanCost, PoolPrice, RunCost
from rsctl.cli.views.cost import format_plan_cost, format_run_cost
from rsctl.cli.views.goodput import format_goodput
from rsctl.runs.goodput_records import GoodputPart

ABOUT = {"count": 1, "machine": "n1", "dollars": 5.0, "region": "any", "source": "the list"}
PRICES = [PoolPrice(role="worker", as_of="2026-11-01", **ABOUT)] * 2  # type: ignore[arg-type]
GUESSED = PoolPrice(role="reducer", as_of="2026-12-01", estimate="a half", **ABOUT)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("about", "lines"),
    [
        ({"unknown": "n9 has no price"}, ["unknown: n9 has no price"]),
        (
            {"per_hour": 10.0, "most": 15.0},
            ["10.00 USD per hour on demand, at most 15.00 USD in 1h30m"],
        ),
        (
            {"per_hour": 10.0, "most": 30.0, "starts": 2, "spot": True, "limit": 40.0},
            [
                "10.00 USD per hour at spot price, at most 30.00 USD in 2 starts of 1h30m; "
                "limits.cost is 40.00 USD",
            ],
        ),
        (
            {"per_hour": 10.0, "most": 15.0, "note": "a remark", "prices": [*PRICES, GUESSED]},
            [
                "10.00 USD per hour on demand, at most 15.00 USD in 1h30m",
                "a remark",
                "by the list, 2026-11-01",
                "by the list, 2026-12-01; an estimate: a half",
            ],
        ),
    ],
)
def test_the_cost_of_a_plan(about: dict[str, Any], lines: list[str]) -> None:
    assert format_plan_cost(PlanCost(**{"seconds": 5400.0, "spot": False, **about})) == lines


@pytest.mark.parametrize(
    ("about", "has_ended", "lines"),
    [
        ({"unknown": "n9 has no price"}, True, ["unknown: n9 has no price"]),
        ({}, False, ["3.00 USD so far: 5:00 at 36.00 USD per hour on demand"]),
        (
            {"spot": True, "elsewhere": 1.0, "limit": 9.0, "note": "a remark", "prices": PRICES},
            True,
            [
                "3.00 USD of 9.00 USD: 5:00 at 36.00 USD per hour at spot price and 1.00 USD in "
                "earlier placements",
                "a remark",
                "by the list, 2026-11-01",
            ],
        ),
    ],
)
def test_the_cost_of_a_run(about: dict[str, Any], has_ended: bool, lines: list[str]) -> None:
    known = {} if "unknown" in about else {"dollars": 3.0, "seconds": 300.0, "per_hour": 36.0}
    assert format_run_cost(RunCost(**{**known, **about}), has_ended) == lines  # type: ignore[arg-type]


PARTS = {
    name: GoodputPart(seconds)
    for name, seconds in {"new_steps": 80.0, "data": 5.0, "checkpoints": 15.0}.items()
}


@pytest.mark.parametrize(
    ("about", "lines"),
    [
        ({"unknown": "no steps"}, []),
        ({"unknown": "no steps", "dollars": 0.0}, []),
        (
            {"unknown": "no steps", "dollars": 2.0, "parts": {"unknown": GoodputPart(100.0)}},
            ["unknown part of 1:40 and 2.00 USD: no steps", "unknown 100.0%"],
        ),
        (
            {"share": 1.0, "parts": {"new_steps": GoodputPart(100.0)}},
            ["100.0% of 1:40 in new steps"],
        ),
        (
            {"share": 0.8, "parts": PARTS, "unpaid": {"queue": 90.0, "end": 0.5}, "dollars": 2.0},
            [
                "80.0% of 1:40 and 2.00 USD in new steps",
                "checkpoints 15.0%, data 5.0%",
                "before and between, not counted: queue 1:30",
            ],
        ),
    ],
)
def test_the_goodput_of_a_run(about: dict[str, Any], lines: list[str]) -> None:
    """The other causes, the longest first, then what is not paid and took a second or more."""
    assert format_goodput(Goodput(seconds=100.0, **about)) == lines
