"""What a run has cost, by the catalogue's prices and the seconds that are billed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import msgspec

from rsctl.catalog.prices import Price, price_of
from rsctl.runs.home import is_rehearsed
from rsctl.runs.store import Run
from rsctl.spec.units import Accelerator
from rsctl.stream.events import now, seconds_between
from rsctl.target_info import target_info
from rsctl.targets.base import Pool

_HOUR = 3600.0


def cost_of(run: Run) -> tuple[float | None, str | None]:
    """US dollars of a run, so far if it goes on; or None and why it is not known.

    SageMaker reports the seconds it bills, spot discount included; elsewhere it is the time from
    running to the end, on demand.
    """
    if not target_info(run.target).is_billed or is_rehearsed(run.run):
        return None, "machines of one's own have no price"
    if _is_spot(run.plan.get("request", {})) and _billed(run) is None:
        return None, "the price of spot machines is not known"
    rate = dollars_an_hour(run.target, run.plan)
    if rate is None:
        return None, "the catalogue has no price for its machines"
    seconds = _billed(run)
    if seconds is None and run.started:
        seconds = max(0.0, seconds_between(run.started, run.ended or now()))
    if seconds is None:
        return None, "it has not started"
    return rate * seconds / _HOUR, None


def dollars_an_hour(target: str, plan: Mapping[str, Any]) -> float | None:
    """What all machines of a plan cost an hour on demand; None if a price is not known."""
    catalogue = target_info(target).catalog
    if catalogue is None:
        return None
    pools = msgspec.convert(plan.get("pools", []), list[Pool])
    prices = [_pool(catalogue, pool) for pool in pools]
    known = [price for price in prices if price is not None]
    return sum(known) if known and len(known) == len(prices) else None


def _pool(catalogue: str, pool: Pool) -> Optional[float]:
    accelerator = Accelerator.parse(pool.accelerator) if pool.accelerator else None
    price = price_of(catalogue, pool.machine or "", accelerator)
    return price.dollars * pool.count if isinstance(price, Price) else None


def _billed(run: Run) -> float | None:
    facts = {fact.name: fact.value for fact in run.facts}
    seconds = facts.get("billable_seconds")
    return float(seconds) if isinstance(seconds, (int, float)) else None


def _is_spot(request: Any) -> bool:
    if isinstance(request, dict):
        if request.get("EnableManagedSpotTraining") is True or request.get("strategy") == "SPOT":
            return True
        return any(map(_is_spot, request.values()))
    return isinstance(request, list) and any(map(_is_spot, request))
