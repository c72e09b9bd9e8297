"""The verdict on a job that was struck: what it lost, and whether it survived. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, Optional

import msgspec

from rsctl.api.drill_checkpoint import CheckpointFiles
from rsctl.api.drill_curve import Curve, compare_curves
from rsctl.api.drill_faults import Fault
from rsctl.api.drill_watch import Observation, Point
from rsctl.findings import JobState
from rsctl.runs.stream.events import parse_time
from rsctl.runs.stream.formatting import format_duration, format_number
from rsctl.runs.stream.headline import is_chief

Verdict = Literal["survived", "not-survived", "not-struck", "not-possible"]
Course = Literal["continued", "restarted", "resumed"]

_HOUR = 3600.0


class FaultResult(msgspec.Struct, kw_only=True):
    """One fault of a drill.

    `course` is what the job did: it continued, restarted by itself, or was resumed by the drill as
    `rsctl submit --resume` does. `struck_at` is the chief's step at the strike, `resumed_at` the
    first step after it, `repeated` the number of steps that ran twice. `exit_code` belongs to the
    struck run. `seconds_lost` are paid seconds beyond the run without a fault, `dollars_lost` their
    price on the machines of the plan.
    """

    fault: str
    verdict: Verdict
    reasons: list[str] = []
    remarks: list[str] = []
    runs: list[str] = []
    strike: str = ""
    struck_at: Optional[int] = None
    course: Optional[Course] = None
    checkpoint: Optional[CheckpointFiles] = None
    resumed_at: Optional[int] = None
    repeated: Optional[int] = None
    curve: Optional[Curve] = None
    exit_code: Optional[int] = None
    seconds: float = 0.0
    seconds_lost: Optional[float] = None
    dollars_lost: Optional[float] = None


class Reference(msgspec.Struct, kw_only=True):
    """The run without a fault: its metric, the value of each step, and its paid seconds.

    `saves_until` is the last step after which its checkpoints changed, None if it kept none.
    `reached` is the last step of each replica.
    """

    run: str
    metric: str
    values: dict[int, float]
    seconds: float
    saves_until: Optional[int] = None
    first_saved: Optional[int] = None
    reached: dict[str, int] = {}

    @property
    def steps(self) -> list[int]:
        """Its steps in order."""
        return sorted(self.values)


def judge(
    fault: Fault,
    reference: Reference,
    struck: Observation,
    resumed: Observation | None,
    refusal: str = "",
    ends_stalls: bool = False,
) -> FaultResult:
    """The result of a fault; `resumed` is the run that continued a run which had failed.

    `refusal` is why it could not be resumed. `ends_stalls` is whether limits.on_stall ends a job.
    """
    points = struck.points.get(reference.metric, [])
    before, after = _divided(points, struck)
    if resumed is not None:
        after = resumed.points.get(reference.metric, [])
    has_restarted = bool(after) or bool(struck.restarts)
    course: Course = "resumed" if resumed else "restarted" if has_restarted else "continued"
    result = FaultResult(
        fault=fault.name,
        verdict="survived",
        runs=[struck.run, *([resumed.run] if resumed else [])],
        strike=struck.strike,
        struck_at=struck.struck_at,
        checkpoint=struck.files,
        exit_code=struck.exit_code,
        seconds=struck.seconds + (resumed.seconds if resumed else 0.0),
    )
    not_struck = struck.not_struck or _untouched(fault, reference, struck, course)
    highest = max((p.step for p in before), default=0)
    has_all = highest >= reference.steps[-1] and not _behind(reference, struck)
    if resumed and resumed.has_succeeded and not after and has_all:
        not_struck = "all steps had run when the fault ended the job: strike earlier"
    if not_struck:
        result.verdict, result.reasons = "not-struck", [not_struck]
        return result
    if struck.hung is None and not refusal:
        result.course = course
    last = resumed or struck
    if last.has_succeeded:
        _add_losses(result, reference, last)
    if struck.hung is not None:
        remedy = "limits.stall did not" if ends_stalls else "set limits.stall and limits.on_stall"
        waited = format_duration(struck.hung)
        result.reasons = [f"the job hangs: nothing ended it for {waited}; {remedy}"]
        result.verdict = "not-survived"
        return result
    reasons = list(_state_reasons(struck, resumed, refusal, course))
    if course != "continued":
        if after:
            result.resumed_at = after[0].step
            result.repeated = len({p.step for p in before} & {p.step for p in after})
        reasons += _step_reasons(reference, struck, before, after, last)
    if last.has_succeeded:
        reasons += _end_reasons(reference, before, after, last, _behind(reference, struck, last))
        if fault.kind == "fill" and course == "continued":
            reasons += _unsaved(reference, struck)
    if after or course == "continued":
        later = after or [p for p in points if p.time >= struck.strike_time]
        result.curve = compare_curves(reference.values, before, later)
        reasons += _curve_reasons(reference.metric, result.curve, bool(later))
    result.reasons = reasons
    result.remarks = list(_remarks(fault, struck, course))
    result.verdict = "not-survived" if reasons else "survived"
    return result


def _divided(points: Sequence[Point], struck: Observation) -> tuple[list[Point], list[Point]]:
    """The values of the attempt that was struck, and those after its restart.

    Where the run does not report a restart, as of a replica in a cloud, a step that comes again
    shows it.
    """
    if struck.restarts:
        since = min(struck.restarts)
        return [p for p in points if p.time < since], [p for p in points if p.time >= since]
    highest: int | None = None
    for index, point in enumerate(points):
        if highest is not None and point.step <= highest and point.time > struck.strike_time:
            return list(points[:index]), list(points[index:])
        highest = point.step if highest is None else max(highest, point.step)
    return list(points), []


def _untouched(
    fault: Fault, reference: Reference, struck: Observation, course: Course
) -> str | None:
    """Why a run that succeeded in one go cannot have felt the fault."""
    if course != "continued" or not struck.has_succeeded or struck.hung is not None:
        return None
    if fault.kind == "kill-reducer" or _behind(reference, struck):
        return None
    if fault.kind == "fill":
        until = reference.saves_until
        if until is None or until <= (struck.struck_at or 0):
            return f"the job writes no checkpoint after step {struck.struck_at}"
        return None
    if fault.kind == "notice":
        return f"the job ended by itself within {fault.notice:g} s of notice"
    if fault.kind in ("freeze", "cut-off"):
        return "the job succeeded without the node"
    return "the job had ended before the fault had an effect"


def _state_reasons(
    struck: Observation, resumed: Observation | None, refusal: str, course: Course
) -> Iterable[str]:
    if refusal:
        yield f"it cannot be resumed: {refusal}"
    elif course != "continued" and not struck.files.files:
        yield f"no checkpoint: {struck.location or 'the job keeps none'}"
    if resumed is not None and not resumed.has_succeeded:
        end = "hangs" if resumed.hung is not None else resumed.state.value
        yield f"the resumed run {resumed.run} {end}: {resumed.failure}"


def _step_reasons(
    reference: Reference,
    struck: Observation,
    before: Sequence[Point],
    after: Sequence[Point],
    last: Observation,
) -> Iterable[str]:
    steps = reference.steps
    if not after:
        if last.has_succeeded and max((p.step for p in before), default=0) < steps[-1]:
            yield f"it reported no {reference.metric} after the fault"
        return
    first, highest = after[0].step, max((p.step for p in before), default=steps[0])
    if first <= steps[0]:
        yield f"it started again at step {first}: nothing was continued"
        return
    if first - highest > _gap(steps):
        yield f"it resumed at step {first}, and steps {highest + 1} to {first - 1} never ran"


def _end_reasons(
    reference: Reference,
    before: Sequence[Point],
    after: Sequence[Point],
    last: Observation,
    behind: Mapping[str, int],
) -> Iterable[str]:
    final = max((p.step for p in [*before, *after]), default=0)
    steps = reference.steps
    if steps[-1] - final >= _gap(steps):
        yield (
            f"exit code {last.exit_code} is wrong: {last.run} ended at step {final} of {steps[-1]}"
        )
    for replica, step in behind.items():
        yield (
            f"exit code {last.exit_code} is wrong: {replica} ended at step {step} of "
            f"{reference.reached[replica]}"
        )


def _unsaved(reference: Reference, struck: Observation) -> Iterable[str]:
    """Why a run is wrong to succeed that could write no file: its newest state is an old one."""
    if struck.files.damaged:
        yield (
            f"exit code {struck.exit_code} is wrong: a write failed after step "
            f"{struck.struck_at} and left a damaged checkpoint"
        )
    elif parse_time(struck.effect_time or struck.strike_time).timestamp() > struck.files.newest:
        yield (
            f"exit code {struck.exit_code} is wrong: no checkpoint was written after step "
            f"{struck.struck_at}, and the run without a fault wrote them until step "
            f"{reference.saves_until}"
        )


def _behind(reference: Reference, *runs: Observation) -> dict[str, int]:
    """The replicas that have not reached their last step of the reference, and their last step.

    A replica that reports no step in the run that continued counts by the run before it: it may
    have done all its steps there.
    """
    gap = _gap(reference.steps)
    reached: dict[str, int] = {}
    for run in runs:
        reached.update(run.reached)
    return {
        replica: reached.get(replica, 0)
        for replica, step in reference.reached.items()
        if not is_chief(replica) and step - reached.get(replica, 0) >= gap
    }


def _gap(steps: Sequence[int]) -> int:
    """The largest distance between two steps that a run reports."""
    return max((b - a for a, b in pairwise(steps)), default=1)


def _curve_reasons(metric: str, curve: Curve, has_values: bool) -> Iterable[str]:
    if has_values and not curve.steps:
        yield f"no {metric} after the fault can be compared with the run without a fault"
    if curve.steps and not curve.is_same:
        yield (
            f"{metric} differs by {format_number(curve.difference)} at step {curve.step}, "
            f"more than its noise of {format_number(curve.noise)}"
        )


def _remarks(fault: Fault, struck: Observation, course: Course) -> Iterable[str]:
    files = struck.files
    if files.damaged:
        yield f"damaged checkpoint: {', '.join(files.damaged[:3])}"
    was_asked = fault.kind == "notice" and course != "continued"
    if was_asked and parse_time(struck.strike_time).timestamp() > files.newest:
        yield "nothing was saved after the notice"
    if struck.state is JobState.EXPIRED:
        yield "limits.timeout ended it"


def _add_losses(result: FaultResult, reference: Reference, last: Observation) -> None:
    result.seconds_lost = max(0.0, result.seconds - reference.seconds)
    if last.per_hour is not None:
        result.dollars_lost = last.per_hour * result.seconds_lost / _HOUR
