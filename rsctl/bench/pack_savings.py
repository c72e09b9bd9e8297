"""The savings of a packed bench: starts of machines, and their time and money by earlier starts."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from rsctl.bench.packed import shape_of
from rsctl.bench.prepare import BenchPlan
from rsctl.estimate.costs.billing import HOUR, PlanCost
from rsctl.runs.ids import packed_job
from rsctl.runs.store import Store
from rsctl.runs.stream.events import seconds_between
from rsctl.runs.stream.formatting import format_duration, format_number

_LAST_RUNS = 200
_MOST_SAMPLES = 20


def pack_remark(store: Store | None, plan: BenchPlan, slots: Iterable[tuple[int, int]]) -> str:
    """One sentence about the slots of a packed bench; without a store no time is known.

    Raises StoreError.
    """
    cells = [cell for cell, _ in slots]
    shapes = {cell: shape_of(plan.cells[cell]) for cell in set(cells)}
    jobs = len(set(shapes.values()))
    saved = len(cells) - jobs
    where = "1 job" if jobs == 1 else f"{jobs} jobs"
    starts = "1 start" if saved == 1 else f"{saved} starts"
    text = f"packed: {len(cells)} runs in {where}, which saves {starts} of machines"
    seconds = _start_seconds(store, plan) if store is not None and saved else None
    if seconds is None:
        return text
    parts = [f"about {format_duration(saved * seconds)}"]
    cost = plan.cells[0].submission.plan.cost
    if isinstance(cost, PlanCost) and cost.per_hour is not None and plan.rehearsal is None:
        dollars = format_number(saved * seconds * cost.per_hour / HOUR)
        parts.append(f"up to {dollars} USD")
    return f"{text}: {' and '.join(parts)}, by earlier starts on {plan.target.info.name}"


def _start_seconds(store: Store, plan: BenchPlan) -> float | None:
    """The median time from the submission of earlier runs on this target until they ran."""
    target = plan.target.info.name
    took = [
        seconds_between(run.created, run.started)
        for run in store.runs(_LAST_RUNS)
        if run.target == target and run.started is not None and packed_job(run.run) is None
    ]
    return median(took[:_MOST_SAMPLES]) if took else None
