"""The costs of plans and runs as text."""

from __future__ import annotations

from collections.abc import Iterable

from rsctl.api import PlanCost, PoolPrice, RunCost, dollars
from rsctl.job.units import Duration
from rsctl.runs.stream.formatting import format_duration


def format_plan_cost(cost: PlanCost) -> list[str]:
    """The hourly price of a plan, its maximum cost, and the price sources."""
    if cost.per_hour is None or cost.most is None:
        return [f"unknown: {cost.unknown}"]
    times = f"{cost.starts} starts of " if cost.starts > 1 else ""
    limit = f"; limits.cost is {dollars(cost.limit)}" if cost.limit is not None else ""
    return [
        f"{dollars(cost.per_hour)} per hour {_market(cost.spot)}, at most {dollars(cost.most)} "
        f"in {times}{Duration(cost.seconds)}{limit}",
        *([cost.note] if cost.note else []),
        *format_prices(cost.prices),
    ]


def format_run_cost(cost: RunCost, has_ended: bool) -> list[str]:
    """The cost of a run so far, and the price sources."""
    if cost.dollars is None or cost.per_hour is None or cost.seconds is None:
        return [f"unknown: {cost.unknown}"]
    before = f" and {dollars(cost.elsewhere)} in earlier placements" if cost.elsewhere else ""
    so_far = "" if has_ended else " so far"
    limit = f" of {dollars(cost.limit)}" if cost.limit is not None else ""
    return [
        f"{dollars(cost.dollars)}{limit}{so_far}: {format_duration(cost.seconds)} at "
        f"{dollars(cost.per_hour)} per hour {_market(cost.spot)}{before}",
        *([cost.note] if cost.note else []),
        *format_prices(cost.prices),
    ]


def format_prices(prices: Iterable[PoolPrice]) -> list[str]:
    """The source and date of each price, once, with the reason if it is an estimate."""
    lines = []
    for price in prices:
        estimate = f"; an estimate: {price.estimate}" if price.estimate else ""
        lines.append(f"by {price.source}, {price.as_of}{estimate}")
    return list(dict.fromkeys(lines))


def _market(spot: bool) -> str:
    return "at spot price" if spot else "on demand"
