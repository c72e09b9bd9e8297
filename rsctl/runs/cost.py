"""The cost of a run, and the price used."""

from __future__ import annotations

from typing import Optional

import msgspec

from rsctl.estimate.costs.billing import HOUR, PlanCost, PoolPrice, billing_of, plan_cost
from rsctl.findings import ExitCode, RsctlError, error, first_of
from rsctl.job.job import Limits
from rsctl.runs.home import is_rehearsed
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import now, seconds_between
from rsctl.target_info import bills, target_info

_NO_PRICE = "your own machines have no price"
_SHOWN = 3
_REHEARSED = "a rehearsal is not billed"


class RunCost(msgspec.Struct, kw_only=True, frozen=True):
    """The cost of a run in US dollars, so far if it is active; `unknown` is the reason if it is
    unknown.

    It is `seconds` at `per_hour`, on demand or, if `spot`, as spot, by the prices at submission,
    plus `elsewhere`, its cost in earlier placements. `limit` is its `limits.cost`.
    """

    dollars: Optional[float] = None
    per_hour: Optional[float] = None
    seconds: Optional[float] = None
    spot: bool = False
    elsewhere: Optional[float] = None
    limit: Optional[float] = None
    prices: list[PoolPrice] = []
    note: Optional[str] = None
    unknown: Optional[str] = None


class _PricedPool(msgspec.Struct, frozen=True):
    """The billable part of a stored plan's pool."""

    role: str
    count: int
    machine: Optional[str] = None
    accelerator: Optional[str] = None


def cost_of(run: RunRecord) -> tuple[float | None, str | None]:
    """US dollars of a run, so far if it is active; or None and the reason why it is unknown.

    Raises RsctlError for anything but a run's record.
    """
    if not isinstance(run, RunRecord):
        remedy = "give the attribute `record` of a run"
        finding = error("argument", f"run: {run!r:.80} is not a record of a run", remedy)
        raise RsctlError(ExitCode.USAGE, finding)
    cost = run_cost(run)
    if cost is None:
        return None, _REHEARSED if is_rehearsed(run.run) else _NO_PRICE
    return cost.dollars, cost.unknown


def run_cost(run: RunRecord) -> RunCost | None:
    """The cost of a run; None for your own machines. Does not contact a cloud.

    SageMaker reports the seconds it bills; elsewhere it is the time in which the job ran, which a
    job that was started again did not do all the time.
    """
    if not is_billed(run):
        return None
    planned = _planned(run)
    if planned is None:
        return RunCost(unknown=f"rsctl knows no prices of target {run.target}")
    cost = RunCost(
        per_hour=planned.per_hour,
        seconds=_seconds(run),
        spot=planned.spot,
        limit=planned.limit,
        prices=planned.prices,
        note=planned.note,
    )
    left = [placement for placement in run.placements if placement.ended]
    elsewhere = sum(placement.dollars or 0.0 for placement in left)
    if lacking := [str(placement) for placement in left if placement.dollars is None]:
        text = f"without the unknown cost in {first_of(lacking, _SHOWN)}"
        notes = "; ".join(filter(None, (cost.note, text)))
        cost = msgspec.structs.replace(cost, note=notes)
    if elsewhere:
        cost = msgspec.structs.replace(cost, elsewhere=round(elsewhere, 6))
    if planned.per_hour is None:
        return msgspec.structs.replace(cost, unknown=planned.unknown)
    if cost.seconds is None:
        if elsewhere:
            return msgspec.structs.replace(cost, dollars=elsewhere, seconds=0.0)
        why = "it has not started" if run.ended is None else "it did not run, as far as rsctl knows"
        return msgspec.structs.replace(cost, unknown=why)
    return msgspec.structs.replace(cost, dollars=elsewhere + planned.per_hour * cost.seconds / HOUR)


def is_billed(run: RunRecord) -> bool:
    """Whether the job of a run costs money: it is in a cloud, and not a rehearsal."""
    return bills(run.target) and not is_rehearsed(run.run)


def _planned(run: RunRecord) -> PlanCost | None:
    """The prices in the run's plan; present prices for a job that was submitted elsewhere."""
    stored = run.plan.get("cost")
    if stored is not None:
        return msgspec.convert(stored, PlanCost)
    info, request = target_info(run.target), run.plan.get("request")
    billing = billing_of(info, request if isinstance(request, dict) else {})
    if billing is None or info.catalog is None:
        return None
    pools = msgspec.convert(run.plan.get("pools", []), list[_PricedPool])
    return plan_cost(info.name, pools, billing, Limits())


def _seconds(run: RunRecord) -> float | None:
    billed = run.fact("billable_seconds")
    if isinstance(billed, (int, float)):
        return float(billed)
    if run.started is None:
        return None
    if run.attempt > 1:  # between its starts it may have waited for machines
        from rsctl.runs.timeline import SECOND, spans_of  # not for a plan, which has no run

        return sum(span.end - span.start for span in spans_of(run) if span.paid) / SECOND
    return max(0.0, seconds_between(run.started, run.ended or now()))
