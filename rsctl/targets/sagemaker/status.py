"""The status and facts of a training job, from DescribeTrainingJob's answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsctl.findings import JobState
from rsctl.node.roles import STOPPED_ROLES
from rsctl.runs.records import PHASES
from rsctl.runs.stream.formatting import format_duration
from rsctl.targets.managed.service import Fact, JobStatus
from rsctl.targets.sagemaker import failure_reason
from rsctl.targets.sagemaker.description import event_time
from rsctl.targets.sagemaker.job_address import JobAddress
from rsctl.targets.sagemaker.pools import pools_of
from rsctl.targets.sagemaker.status_transitions import (
    active_phases,
    attempt_of,
    billed_phases,
    cause_of,
    current_time,
    has_machines,
    phases_of,
    restart_reason,
    state_of,
    state_start,
    was_pending_too_long,
)

Answer = Mapping[str, Any]

_REASONS = {
    "MaxRuntimeExceeded": "it reached its time limit, limits.timeout",
    "MaxWaitTimeExceeded": "it did not get spot capacity, or did not end, within limits.timeout "
    "plus limits.queue",
}


def status_of(answer: Answer, address: JobAddress) -> JobStatus:
    """The job's status, with its costs and phases as far as known."""
    state, phases = state_of(answer), phases_of(answer)
    time = event_time(state_start(answer, state))
    has_failed = state is JobState.FAILED
    return JobStatus(
        state=state,
        time=time,
        started=event_time(answer["TrainingStartTime"]) if "TrainingStartTime" in answer else None,
        has_machines=has_machines(phases) or _is_planned(answer),
        reason=_reason(answer, state),
        attempt=attempt_of(phases),
        restarted=restart_reason(phases),
        is_interrupted=True,  # it restarts no job that has failed by itself
        ended_roles=_ended_roles(answer),
        failed=failure_reason.failures(answer, pools_of(answer), time) if has_failed else [],
        unnamed=failure_reason.unnamed_failure(answer) if has_failed else None,
        facts=[*_phases(answer), *_billing(answer), *_warm_pool(answer), *_links(answer, address)],
        findings=failure_reason.findings(answer) if has_failed else [],
    )


def _is_planned(answer: Answer) -> bool:
    """Whether a training plan reserves the machines: SageMaker alone limits the wait for them."""
    return bool((answer.get("ResourceConfig") or {}).get("TrainingPlanArn"))


def _ended_roles(answer: Answer) -> tuple[str, ...]:
    """The roles of a succeeded job that ended by themselves: rsctl-launch stopped the others."""
    stopped = str((answer.get("Environment") or {}).get(STOPPED_ROLES) or "").split(",")
    roles = dict.fromkeys(pool.role for pool in pools_of(answer))
    return tuple(role for role in roles if role not in ("reducer", *stopped))


def _reason(answer: Answer, state: JobState) -> str | None:
    """The reason for the state; while the job runs, the service's message about the phase."""
    if state is JobState.EXPIRED and was_pending_too_long(answer):
        return "it did not get machines within limits.queue"
    if state.is_final:
        known = _REASONS.get(str(answer.get("SecondaryStatus")))
        return str(answer.get("FailureReason") or "") or known
    phases = phases_of(answer)
    return (phases[-1].message or None) if phases else None


def _phases(answer: Answer) -> list[Fact]:
    """Each phase with its seconds; for people, phases of one kind are added up."""
    until = answer.get("TrainingEndTime") or current_time()
    phases = active_phases(phases_of(answer))
    if not phases:
        return []
    totals: dict[str, float] = {}
    for phase in phases:
        totals[phase.status] = totals.get(phase.status, 0.0) + phase.seconds(until)
    text = ", ".join(f"{n.lower()} {format_duration(s)}" for n, s in totals.items())
    value = [
        {
            "phase": phase.status,
            "seconds": round(phase.seconds(until), 3),
            "start": event_time(phase.start),
            "cause": cause_of(phase),
            "billed": is_billed,
        }
        for phase, is_billed in billed_phases(phases, bool(answer.get("EnableManagedSpotTraining")))
    ]
    return [Fact(PHASES, text, value)]


def _billing(answer: Answer) -> list[Fact]:
    """The billed time: the seconds count for each machine."""
    billed, trained = answer.get("BillableTimeInSeconds"), answer.get("TrainingTimeInSeconds")
    if not billed:
        return []
    machines = sum(pool.count for pool in pools_of(answer))
    text = f"{billed} s on each of {machines} machines" if machines > 1 else f"{billed} s"
    facts = [Fact("billable_seconds", text, billed)]
    if answer.get("EnableManagedSpotTraining") and trained:
        saved = round(100 * (1 - billed / trained), 1)
        facts.append(Fact("spot_saving_percent", f"{saved:g} %", saved))
    return facts


def _warm_pool(answer: Answer) -> list[Fact]:
    pool = answer.get("WarmPoolStatus")
    if not pool or "Status" not in pool:
        return []
    status, seconds = str(pool["Status"]), pool.get("ResourceRetainedBillableTimeInSeconds")
    value = {"status": status, "billable_seconds": seconds, "reused_by": pool.get("ReusedByJob")}
    text = status.lower() if seconds is None else f"{status.lower()}, {seconds} s kept and billed"
    if pool.get("ReusedByJob"):
        text += f", reused by {pool['ReusedByJob']}"
    return [Fact("warm_pool", text, value)]


def _links(answer: Answer, address: JobAddress) -> list[Fact]:
    """The job's page in the console. Its address is known for the public partition only."""
    arn = str(answer.get("TrainingJobArn", ""))
    if not arn.startswith("arn:aws:"):
        return []
    return [Fact("console", address.console, address.console)]
