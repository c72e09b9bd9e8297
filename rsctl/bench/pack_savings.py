"""The savings of a packed bench: starts of machines, and their time and money by earlier starts."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from rsctl.bench.packed import shape_of
from rsctl.bench.prepare import BenchPlan
from rsctl.estimate.costs.billing import HOUR, PlanCost
from rsctl.runs.home import is_rehearsed
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
    if not saved:
        return text
    seconds = _start_seconds(store, plan) if store is not None else None
    target = plan.target.info.name
    if seconds is None:
        unknown = "time and price" if _price(plan) is not None else "time"
        return f"{text}; their {unknown} will be known after a first run on {target}"
    parts = [f"about {format_duration(saved * seconds)}"]
    price = _price(plan)
    if price is not None:
        parts.append(f"up to {format_number(saved * seconds * price / HOUR)} USD")
    return f"{text}: {' and '.join(parts)}, by earlier starts on {target}"


def _price(plan: BenchPlan) -> float | None:
    """The price of a job's machines in US dollars an hour; None if there is none that is known."""
    cost = plan.cells[0].submission.plan.cost
    return cost.per_hour if isinstance(cost, PlanCost) and plan.rehearsal is None else None


def _start_seconds(store: Store, plan: BenchPlan) -> float | None:
    """The median time from the submission of earlier runs on this target until they ran; of
    rehearsals for a rehearsal.
    """
    target, rehearsed = plan.target.info.name, plan.rehearsal is not None
    took = [
        seconds_between(run.created, run.started)
        for run in store.runs(_LAST_RUNS)
        if run.target == target
        and run.started is not None
        and packed_job(run.run) is None
        and is_rehearsed(run.run) == rehearsed
    ]
    return median(took[:_MOST_SAMPLES]) if took else None
