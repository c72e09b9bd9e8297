"""The billing of a request, and the cost of its machines: the most that a job can cost. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Optional, Protocol

import msgspec

from rsctl.estimate.catalog.prices import NoPrice, price_of
from rsctl.findings import RsctlError
from rsctl.job.job import Limits
from rsctl.job.units import Accelerator
from rsctl.target_info import TargetInfo, import_object

HOUR = 3600.0
ROUNDED = 1e-6
"""Dollars that a rounding error may be."""


class Billing(NamedTuple):
    """The parts of a request that determine its cost.

    A job runs `seconds` at most and is then ended by the cloud, which takes up to `grace` seconds
    that are billed too; `is_for_each_start` is whether each restart may take them again. `is_spot`
    is whether it has the price of spot machines, `note` a remark on the price.
    """

    region: Optional[str]
    seconds: float
    is_spot: bool = False
    grace: float = 0.0
    is_for_each_start: bool = False
    note: Optional[str] = None


class PoolPrice(msgspec.Struct, kw_only=True, frozen=True):
    """The price of one node of a pool in US dollars an hour, from `estimate.catalog.prices`."""

    role: str
    count: int
    machine: str
    dollars: float
    region: str
    source: str
    as_of: str
    estimate: Optional[str] = None


class PlanCost(msgspec.Struct, kw_only=True, frozen=True):
    """The cost of a plan, in US dollars; `unknown` is the reason if it is unknown.

    `per_hour` is for all its machines, on demand or, if `spot`, as spot. `most` is for the longest
    time that it can run: `seconds`, as often as it can be started. `limit` is `limits.cost`, at
    which it is cancelled. `note` is a remark on the price.
    """

    per_hour: Optional[float] = None
    most: Optional[float] = None
    seconds: float
    starts: int = 1
    limit: Optional[float] = None
    spot: bool
    prices: list[PoolPrice] = []
    note: Optional[str] = None
    unknown: Optional[str] = None

    @property
    def ends_at_limit(self) -> bool:
        """Whether its running time is exactly the time that `limit` pays for, to the second."""
        if self.limit is None or self.most is None or self.per_hour is None:
            return False
        of_a_second = self.starts * self.per_hour / HOUR
        return -ROUNDED <= self.limit - self.most <= of_a_second + ROUNDED


class BilledNodes(Protocol):
    """A pool: so many nodes of one machine, with accelerators written as in a job."""

    @property
    def role(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def machine(self) -> Optional[str]: ...
    @property
    def accelerator(self) -> Optional[str]: ...


def billing_of(info: TargetInfo, request: Mapping[str, Any]) -> Billing | None:
    """How a request of a target is billed; None if nothing is known to be."""
    if info.billing is None:
        return None
    read: Callable[[Mapping[str, Any]], Billing] = import_object(info.billing)
    return read(request)


def plan_cost(
    catalogue: str, pools: Iterable[BilledNodes], billing: Billing, limits: Limits
) -> PlanCost:
    """The price of machines, from the price tables of a catalogue."""
    starts = 1 + (limits.most_restarts or 0) if billing.is_for_each_start else 1
    cost = PlanCost(
        seconds=billing.seconds,
        starts=starts,
        limit=None if limits.cost is None else float(limits.cost),
        spot=billing.is_spot,
        note=billing.note,
    )
    try:
        prices = [_pool_price(catalogue, pool, billing) for pool in pools]
    except RsctlError as problem:  # a table of the user's
        return msgspec.structs.replace(cost, unknown=problem.summary)
    unknown = [price.reason for price in prices if isinstance(price, NoPrice)]
    if unknown or not prices:
        return msgspec.structs.replace(cost, unknown="; ".join(unknown) or "it has no machines")
    known = [price for price in prices if isinstance(price, PoolPrice)]
    per_hour = round(sum(price.count * price.dollars for price in known), 6)
    most = per_hour * starts * (billing.seconds + billing.grace) / HOUR
    return msgspec.structs.replace(cost, per_hour=per_hour, most=round(most, 6), prices=known)


def _pool_price(catalogue: str, pool: BilledNodes, billing: Billing) -> PoolPrice | NoPrice:
    machine = pool.machine or "an unknown machine"
    accelerator = Accelerator.parse(pool.accelerator) if pool.accelerator else None
    price = price_of(catalogue, machine, accelerator, region=billing.region, spot=billing.is_spot)
    if isinstance(price, NoPrice):
        return price
    return PoolPrice(
        role=pool.role,
        count=pool.count,
        machine=machine,
        dollars=price.dollars,
        region=price.region,
        source=price.source,
        as_of=price.as_of,
        estimate=price.estimate,
    )
