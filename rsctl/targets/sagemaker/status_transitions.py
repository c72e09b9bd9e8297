"""The secondary status transitions of a training job: its state, phases and attempts. Pure.

Only the statuses are branched on; their messages are for people ("subject to change", by the
service's own model).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from rsctl.findings import JobState

_LONGEST_MESSAGE = 500

_STATES = {
    "Pending": JobState.QUEUED,
    "Interrupted": JobState.QUEUED,
    "Starting": JobState.STARTING,
    "LaunchingMLInstances": JobState.STARTING,
    "PreparingTrainingStack": JobState.STARTING,
    "Downloading": JobState.STARTING,
    "DownloadingTrainingImage": JobState.STARTING,
    "Restarting": JobState.STARTING,
    "Training": JobState.RUNNING,
    "Uploading": JobState.RUNNING,
    "Updating": JobState.RUNNING,
    "Stopping": JobState.CANCELLING,
    "Completed": JobState.SUCCEEDED,
    "Failed": JobState.FAILED,
    "Stopped": JobState.CANCELLED,
    "MaxRuntimeExceeded": JobState.EXPIRED,
    "MaxWaitTimeExceeded": JobState.EXPIRED,
}
_PRIMARY = {
    "Completed": JobState.SUCCEEDED,
    "Failed": JobState.FAILED,
    "Stopping": JobState.CANCELLING,
    "Stopped": JobState.CANCELLED,
}
_CAUSES = {
    "Pending": "queue",
    "Interrupted": "queue",
    "Downloading": "data",
    "DownloadingTrainingImage": "image",
    "Training": None,
    "Updating": None,
    "Uploading": "end",
    "Stopping": "end",
}
_IMAGE = "Downloading the training image"
_BILLED_FROM = frozenset({"Downloading", "DownloadingTrainingImage", "Training"})
_RESTARTS = {
    "Interrupted": "its spot machines were interrupted",
    "Restarting": "SageMaker restarted it",
}


class Phase(NamedTuple):
    """One secondary status that the job was in; `end` is None while it lasts."""

    status: str
    start: datetime
    end: datetime | None
    message: str

    def seconds(self, until: datetime) -> float:
        """Its duration; up to `until` if it still lasts."""
        return max(0.0, ((self.end or until) - self.start).total_seconds())


def phases_of(answer: Mapping[str, Any]) -> list[Phase]:
    """All transitions with a time, in order."""
    return [
        Phase(
            str(entry.get("Status", "")),
            entry["StartTime"],
            entry.get("EndTime"),
            str(entry.get("StatusMessage") or "")[:_LONGEST_MESSAGE],
        )
        for entry in answer.get("SecondaryStatusTransitions", ())
        if isinstance(entry.get("StartTime"), datetime)
    ]


def state_of(answer: Mapping[str, Any]) -> JobState:
    """The job's state. The secondary status is the more exact one about its end.

    An unknown status means running after training has begun, and otherwise starting: the model says
    that new statuses may be added.
    """
    primary, secondary = answer.get("TrainingJobStatus"), answer.get("SecondaryStatus", "")
    found = _STATES.get(secondary)
    if primary == "InProgress":
        return found if found and not found.is_final else _unknown(answer)
    if found is JobState.CANCELLED and was_pending_too_long(answer):
        return JobState.EXPIRED
    if found and (found.is_final or primary not in _PRIMARY):
        return found
    return _PRIMARY.get(str(primary), _unknown(answer))


def was_pending_too_long(answer: Mapping[str, Any]) -> bool:
    """Whether a stopped job never had machines for all of MaxPendingTimeInSeconds. Neither status
    shows who stopped it.
    """
    longest = (answer.get("StoppingCondition") or {}).get("MaxPendingTimeInSeconds")
    phases = phases_of(answer)
    if not longest or not phases or any(phase.status in _BILLED_FROM for phase in phases):
        return False
    waits = [phase for phase in phases if cause_of(phase) in ("queue", "machines")]
    return sum(phase.seconds(phases[-1].start) for phase in waits) >= float(longest)


def _unknown(answer: Mapping[str, Any]) -> JobState:
    has_trained = any(phase.status == "Training" for phase in phases_of(answer))
    return JobState.RUNNING if has_trained else JobState.STARTING


def state_start(answer: Mapping[str, Any], state: JobState) -> Any:
    """The time when the job entered its present state."""
    start: Any = None
    for phase in reversed(phases_of(answer)):
        if _STATES.get(phase.status, state) is not state:
            break
        start = phase.start
    if state.is_final and start is None:
        start = answer.get("TrainingEndTime")
    return start or answer.get("LastModifiedTime") or answer.get("CreationTime")


def attempt_of(phases: list[Phase]) -> int:
    """How often the job was started: interruptions and restarts that follow each other are one."""
    return 1 + len(_restarts(phases))


def restart_reason(phases: list[Phase]) -> str | None:
    """Why the present attempt was started: the service's message, or its status. None if no attempt
    was before.
    """
    last = next(reversed(_restarts(phases)), None)
    return None if last is None else last.message or _RESTARTS[last.status]


def _restarts(phases: list[Phase]) -> list[Phase]:
    """The first phase of each interruption or restart."""
    statuses = ["", *(phase.status for phase in phases)]
    return [
        phase
        for before, phase in zip(statuses, phases, strict=False)
        if phase.status in _RESTARTS and before not in _RESTARTS
    ]


def active_phases(phases: list[Phase]) -> list[Phase]:
    """The phases that take time: all but the end."""
    return [phase for phase in phases if not _is_end(phase)]


def cause_of(phase: Phase) -> str | None:
    """The phase's cause in a goodput; None while the job's program runs.

    The service downloads the image in the phases Downloading and Training too, with a message that
    says so.
    """
    if _IMAGE in phase.message:
        return "image"
    return _CAUSES.get(phase.status, "machines")


def billed_phases(phases: list[Phase], is_spot: bool) -> list[tuple[Phase, bool]]:
    """Each phase and whether it is billed: from the first download on, `TrainingStartTime`. On spot
    machines it is not billed while the job waits for other machines.
    """
    found, has_machines = [], False
    for phase in phases:
        if phase.status in _BILLED_FROM:
            has_machines = True
        elif is_spot and cause_of(phase) in ("queue", "machines"):
            has_machines = False
        found.append((phase, has_machines))
    return found


def has_machines(phases: list[Phase]) -> bool:
    """Whether the present phase is one that needs the machines, such as a download."""
    return bool(phases) and phases[-1].status in _BILLED_FROM


def _is_end(phase: Phase) -> bool:
    state = _STATES.get(phase.status)
    return state is not None and state.is_final


def current_time() -> datetime:
    """The present, for a phase that still lasts."""
    return datetime.now(timezone.utc)
