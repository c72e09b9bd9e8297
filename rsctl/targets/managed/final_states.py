"""Records the final states of a job in a cloud and of its replicas, and the first failure."""

from __future__ import annotations

from functools import partial

import msgspec

from rsctl.findings import JobState
from rsctl.runs.failures import first_failure
from rsctl.runs.folder import RunFolder
from rsctl.runs.recorder import Recorder
from rsctl.runs.records import NODE_FAILED
from rsctl.runs.stream.events import Failure, StateEvent
from rsctl.targets.base import Pool, replica_names
from rsctl.targets.managed.attempts import is_preemption
from rsctl.targets.managed.hosts import replica_on
from rsctl.targets.managed.progress import CollectorProgress
from rsctl.targets.managed.service import JobStatus
from rsctl.targets.managed.status_poller import stamped

_MOST_LINES = 40
_WORKER, _CHIEF = "worker", "worker-0"
_UNKNOWN_SENDER = ("signal", "killed")
"""Causes of replicas that a signal has ended."""
_CONTINUED = "the workers continued without it"
_REASONS = {
    JobState.FAILED: "the job had failed",
    JobState.EXPIRED: "the job's time limit was reached",
}


def final_event(status: JobStatus) -> StateEvent:
    """The job's final state as an event, as the cloud reports it."""
    return StateEvent(
        time=stamped(status.time),
        state=status.state,
        attempt=status.attempt,
        exit_code=int(status.state.exit_code),
        reason=status.reason,
    )


def record_final_states(
    status: JobStatus,
    progress: CollectorProgress,
    pools: list[Pool],
    folder: RunFolder,
    recorder: Recorder,
) -> None:
    """Record the end of every replica, the first failure if there is one, and the job's end."""
    reason = status.reason
    if status.state is JobState.SUCCEEDED:
        _all_succeeded(status, progress, pools, recorder)
    else:
        failures = _failures(status, progress, pools, folder)
        first = _last_failure(status, progress)
        if failures:
            first = first_failure(failures, folder, replica_on=partial(replica_on, pools=pools))
        lost = next((each for each in status.findings if each.code == NODE_FAILED), None)
        if first is not None and lost is not None:  # then the cluster has sent the signal
            causes = [lost if each.code in _UNKNOWN_SENDER else each for each in first.causes]
            first = msgspec.structs.replace(first, causes=causes)
        _end_replicas(status, pools, failures, first, recorder)
        _record_cause(status, first, recorder)
        if first is not None and not progress.restarted_too_often:
            reason = status.reason if lost and is_preemption(first) else first.reason
    exit_code = int(status.state.exit_code)
    recorder.state(status.state, exit_code=exit_code, reason=reason, time=status.time)


def _failures(
    status: JobStatus, progress: CollectorProgress, pools: list[Pool], folder: RunFolder
) -> list[Failure]:
    """The failed replicas of a failed job, as its log reports them, and then the cloud.

    If neither names one, the log's last lines decide.
    """
    if status.state is not JobState.FAILED:
        return []
    failures = [
        *progress.failures,
        *(_with_reason(failure, status.reason) for failure in status.failed),
    ]
    if not failures and status.unnamed:
        from rsctl.runs.log_failures import log_failures

        return log_failures(folder, replica_names(pools), status.unnamed)
    return failures


def _record_cause(status: JobStatus, first: Failure | None, recorder: Recorder) -> None:
    """Record the first failure; without one, the causes that the cloud's own text names."""
    if first is not None:
        recorder.failure(_with_reason(first, status.reason))
    elif status.state is JobState.FAILED and status.reason and not status.findings:
        from rsctl.runs.stream.diagnosis import causes_in

        for cause in causes_in(status.reason.splitlines()):
            recorder.finding(cause)


def _all_succeeded(
    status: JobStatus, progress: CollectorProgress, pools: list[Pool], recorder: Recorder
) -> None:
    """Record the ends of a succeeded job's replicas.

    Reducers and roles that end with the workers are stopped when these have ended: their exit codes
    are unknown. Some reducers may have been lost before, if the workers can continue without them.
    Where a job ends with its chief, the platform may have stopped other workers in their work.
    """
    time = status.time
    lost = {failure.replica: failure.exit_code for failure in reversed(progress.failures)}
    for name in replica_names(pools):
        role = name.rpartition("-")[0]
        if name == _CHIEF or role in status.ended_roles:
            recorder.state(JobState.SUCCEEDED, name, 0, time=time)
        elif name in lost:
            why = "the job ended with the chief" if role == _WORKER else _CONTINUED
            recorder.state(JobState.FAILED, name, lost[name], why, time=time)
        elif role == _WORKER:
            why = "ended with the chief, result not known"
            recorder.state(JobState.CANCELLED, name, reason=why, time=time)
        else:
            why = "stopped after the workers had ended"
            recorder.state(JobState.SUCCEEDED, name, reason=why, time=time)


def _last_failure(status: JobStatus, progress: CollectorProgress) -> Failure | None:
    """For a job that was ended for its restarts, the failure of its last attempt."""
    if not progress.restarted_too_often or status.state is not JobState.FAILED:
        return None
    return next(
        (attempt.failure for attempt in reversed(progress.attempts) if attempt.failure), None
    )


def _end_replicas(
    status: JobStatus,
    pools: list[Pool],
    failures: list[Failure],
    first: Failure | None,
    recorder: Recorder,
) -> None:
    """Record the replicas' ends, as far as they follow from the job's end and from the reports."""
    codes = {failure.replica: failure.exit_code for failure in reversed(failures)}
    if failures and first is not None:
        codes.setdefault(first.replica, first.exit_code)
    why = _REASONS.get(status.state, f"the job was {status.state.value}")
    why = f"{first.replica} had failed" if first is not None else why
    for name in replica_names(pools):
        code = codes.get(name)
        if code is None or first is None:
            reason = f"stopped after {why}"
            recorder.state(JobState.CANCELLED, name, reason=reason, time=status.time)
        else:
            recorder.state(JobState.FAILED, name, code, first.why_failed(name), time=status.time)


def _with_reason(failure: Failure, reason: str | None) -> Failure:
    """The cloud's reason explains a replica without any other data."""
    if failure.lines or not reason:
        return failure
    return msgspec.structs.replace(failure, lines=reason.splitlines()[-_MOST_LINES:])
