"""The run of a drill without a fault: the metric that it is compared by, and when to strike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rsctl.api.drill_verdict import Reference
from rsctl.api.drill_watch import Observation, Point
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.job import Job
from rsctl.runs.stream.events import parse_time

_LEAST_STEPS = 3
_RENUMBERED = (
    "log a step number that continues over epochs: rsctl cannot tell new steps from repeated ones"
)
_STEPS = "let the script report it: log_metrics(step=..., loss=...), see docs/guides/metrics.md"


def make_reference(seen: Observation, job: Job, name: str | None) -> Reference:
    """The values that struck runs are compared with. Raises RsctlError."""
    if not seen.has_succeeded:
        message = f"the run without a fault {seen.state.value}: {seen.failure}"
        remedy = f"repair the job first: rsctl logs {seen.run} --failed"
        raise RsctlError(ExitCode.JOB_FAILED, error("drill", message, remedy))
    metric = _chosen_metric(seen, job, name)
    points = seen.points[metric]
    values = {point.step: point.value for point in points}
    newest = seen.files.newest
    saved = [
        p.step for p in points if seen.files.files and parse_time(p.time).timestamp() <= newest
    ]
    return Reference(
        run=seen.run,
        metric=metric,
        values=values,
        seconds=seen.seconds,
        saves_until=max(saved, default=None),
        first_saved=seen.first_saved,
        reached=seen.reached,
    )


def _chosen_metric(seen: Observation, job: Job, named: str | None) -> str:
    """The metric to compare: the named one, or else the loss. Raises RsctlError."""
    names = {name: len({p.step for p in points}) for name, points in seen.points.items()}
    own = [name for name, count in names.items() if count >= _LEAST_STEPS]
    renumbered = [name for name in own if _begins_again(seen.points[name], seen.restarts)]
    if named in renumbered or (renumbered and renumbered == own):
        message = f"the steps of {named or renumbered[0]} in {seen.run} begin again within the run"
        raise RsctlError(ExitCode.USAGE, error("metric", message, _RENUMBERED))
    own = [name for name in own if name not in renumbered]
    if named is not None:
        if named in own:
            return named
        found = f"the steps of {', '.join(own)}" if own else "no metric with steps"
        message = f"{seen.run} has {found}, and not of {named}"
        raise RsctlError(ExitCode.USAGE, error("metric", message, _STEPS))
    specs = job.metrics
    least = [name for name in own if name in specs and specs[name].goal == "min"]
    losses = [name for name in own if "loss" in name.lower()]
    for name in ("loss", *losses, *least):
        if name in own:
            return name
    what = f"only {', '.join(own)}" if own else "no metric"
    message = f"{seen.run} has {what} at 3 or more steps, and a drill compares the loss"
    remedy = "name one: --metric NAME" if own else _STEPS
    raise RsctlError(ExitCode.USAGE, error("metric", message, remedy))


def _begins_again(points: Sequence[Point], restarts: Sequence[str]) -> bool:
    """Whether a step number falls without a restart, as where a script counts in each epoch."""
    in_order = sorted(points, key=lambda point: point.time)
    return any(
        after.step < before.step and not any(before.time <= r <= after.time for r in restarts)
        for before, after in pairwise(in_order)
    )


def step_to_strike(reference: Reference, wanted: int | None) -> int:
    """The step to strike at: the middle, or the first one after a checkpoint was there."""
    steps = reference.steps
    if wanted is not None:
        if wanted >= steps[-1]:
            message = f"the job ends at step {steps[-1]}"
            raise RsctlError(ExitCode.USAGE, error("at-step", message, "strike earlier"))
        return wanted
    saved = [s for s in steps if reference.first_saved is not None and s > reference.first_saved]
    middle = steps[len(steps) // 2]
    return min(max(middle, saved[0] if saved else middle), steps[-2])
