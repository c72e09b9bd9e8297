"""`limits.cost`: the running time that it allows, and the errors that refuse a plan. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from rsctl.estimate.costs.billing import HOUR, ROUNDED, BilledNodes, Billing, PlanCost, plan_cost
from rsctl.findings import Finding, error, note
from rsctl.job.job import Job, Limits
from rsctl.job.units import Duration

_KEY = "limits.cost"
_CHEAPER = "use fewer or smaller machines, or raise limits.cost"
_LEAST_SECONDS = 60
"""A job that cannot run for a minute is not sent."""


def limit_time(job: Job, catalogue: str, pools: Iterable[BilledNodes], billing: Billing) -> Job:
    """The job with the running time that `limits.cost` allows as its limit, unless it has one.

    So the cloud itself ends it, even if no process watches it.
    """
    limit = job.limits.cost
    if limit is None or job.limits.timeout is not None:
        return job
    cost = plan_cost(catalogue, pools, billing, job.limits)
    if not cost.per_hour:
        return job
    seconds = math.floor(limit / (cost.per_hour * cost.starts) * HOUR - billing.grace)
    if not _LEAST_SECONDS <= seconds < billing.seconds:
        return job
    return replace(job, limits=replace(job.limits, timeout=Duration(seconds)))


def cost_findings(cost: PlanCost) -> Iterator[Finding]:
    """An error that prevents sending a plan: it may cost more than its limit, or its cost is
    unknown.
    """
    if cost.limit is None:
        return
    if cost.unknown is not None or cost.per_hour is None or cost.most is None:
        yield error(
            "cost",
            (
                "the cost is unknown, so rsctl cannot tell whether it stays below "
                f"{dollars(cost.limit)}: {cost.unknown}"
            ),
            "fetch the clouds' prices: rsctl catalog --refresh; or add your own, see "
            "docs/guides/costs.md; or remove limits.cost",
            _KEY,
        )
    elif cost.limit < cost.starts * cost.per_hour * _LEAST_SECONDS / HOUR:
        message = (
            f"{dollars(cost.limit)} is less than one minute costs: its machines cost "
            f"{dollars(cost.per_hour)} per hour"
        )
        yield error("cost", message, _CHEAPER, _KEY)
    elif cost.most > cost.limit + ROUNDED:
        yield error("cost", _too_dear(cost, cost.limit), _remedy(cost, cost.limit), _KEY)
    else:
        each = f"each of {cost.starts} starts" if cost.starts > 1 else "the job"
        message = (
            f"{each} is ended after {Duration(cost.seconds)}, at a cost of at most "
            f"{dollars(cost.most)}"
        )
        yield note("cost", message, None, _KEY)


def keep_findings(limits: Limits, cost: PlanCost) -> Iterator[Finding]:
    """A note on the cost of `limits.keep`: all machines of the job are billed meanwhile."""
    if limits.keep is None:
        return
    price = dollars(cost.per_hour * limits.keep / HOUR) if cost.per_hour else "an unknown amount"
    message = f"if a node fails, all machines are kept for {limits.keep}, at a cost of {price}"
    yield note("keep", message, None, "limits.keep")


def _too_dear(cost: PlanCost, limit: float) -> str:
    times = f"{cost.starts} starts of " if cost.starts > 1 else ""
    return (
        f"the job can cost {dollars(cost.most or 0)}, more than {dollars(limit)}: "
        f"{times}{Duration(cost.seconds)} at {dollars(cost.per_hour or 0)} per hour"
    )


def _remedy(cost: PlanCost, limit: float) -> str:
    """The time that the limit pays for."""
    seconds = math.floor(cost.seconds * limit / (cost.most or limit))
    return f"set limits.timeout: {Duration(seconds)} or less, {_CHEAPER}"


def dollars(amount: float) -> str:
    """An amount for people: `12.30 USD`, and `0.0041 USD` where cents are too coarse."""
    return f"{amount:,.2f} USD" if amount >= 0.1 or not amount else f"{amount:.2g} USD"
