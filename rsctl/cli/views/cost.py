"""What plans and runs cost, as text."""

from __future__ import annotations

from collections.abc import Iterable

from rsctl.api import PlanCost, PoolPrice, RunCost, dollars
from rsctl.job.units import Duration
from rsctl.runs.stream.formatting import format_duration


def format_plan_cost(cost: PlanCost) -> list[str]:
    """What a plan costs an hour, the most that it can cost, and by which prices."""
    if cost.per_hour is None or cost.most is None:
        return [f"not known: {cost.unknown}"]
    times = f"{cost.starts} starts of " if cost.starts > 1 else ""
    limit = f"; limits.cost is {dollars(cost.limit)}" if cost.limit is not None else ""
    return [
        f"{dollars(cost.per_hour)} an hour {_market(cost.spot)}, at most {dollars(cost.most)} in "
        f"{times}{Duration(cost.seconds)}{limit}",
        *([cost.note] if cost.note else []),
        *format_prices(cost.prices),
    ]


def format_run_cost(cost: RunCost, has_ended: bool) -> list[str]:
    """What a run has cost, and by which prices."""
    if cost.dollars is None or cost.per_hour is None or cost.seconds is None:
        return [f"not known: {cost.unknown}"]
    before = f" and {dollars(cost.elsewhere)} in places it has left" if cost.elsewhere else ""
    so_far = "" if has_ended else " so far"
    limit = f" of {dollars(cost.limit)}" if cost.limit is not None else ""
    return [
        f"{dollars(cost.dollars)}{limit}{so_far}: {format_duration(cost.seconds)} at "
        f"{dollars(cost.per_hour)} an hour {_market(cost.spot)}{before}",
        *([cost.note] if cost.note else []),
        *format_prices(cost.prices),
    ]


def format_prices(prices: Iterable[PoolPrice]) -> list[str]:
    """The source and date of each, once, and why it is an estimate if it is one."""
    lines = []
    for price in prices:
        estimate = f"; an estimate: {price.estimate}" if price.estimate else ""
        lines.append(f"by {price.source}, {price.as_of}{estimate}")
    return list(dict.fromkeys(lines))


def _market(spot: bool) -> str:
    return "as spot" if spot else "on demand"
