"""The status of a job, from what Slurm knows and what the job has written down. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import NamedTuple, Optional

from rsctl.findings import Finding, JobState, error, first_of, note, warning
from rsctl.runs.records import FAILED_NODE, NODE_FAILED
from rsctl.runs.stream.events import now
from rsctl.targets.managed.service import Fact, JobStatus
from rsctl.targets.slurm.cluster import JobRecord
from rsctl.targets.slurm.states import States


class _State(NamedTuple):
    state: JobState
    reason: Optional[str] = None


_STATES = {
    "PENDING": _State(JobState.QUEUED),
    "REQUEUED": _State(JobState.QUEUED, "Slurm has put it back into the queue"),
    "REQUEUE_FED": _State(JobState.QUEUED, "Slurm has put it back into the queue"),
    "REQUEUE_HOLD": _State(JobState.QUEUED, "it is held in the queue: scontrol release"),
    "SPECIAL_EXIT": _State(JobState.QUEUED, "it is held in the queue: scontrol release"),
    "RESV_DEL_HOLD": _State(JobState.QUEUED, "its reservation was deleted"),
    "REVOKED": _State(JobState.QUEUED, "another cluster of the federation runs it"),
    "CONFIGURING": _State(JobState.STARTING, "its nodes are being prepared"),
    "POWER_UP_NODE": _State(JobState.STARTING, "its nodes are being started"),
    "RUNNING": _State(JobState.RUNNING),
    "COMPLETING": _State(JobState.RUNNING),
    "RESIZING": _State(JobState.RUNNING),
    "SIGNALING": _State(JobState.RUNNING),
    "STAGE_OUT": _State(JobState.RUNNING),
    "STOPPED": _State(JobState.RUNNING, "it is stopped"),
    "SUSPENDED": _State(JobState.RUNNING, "it is suspended"),
    "COMPLETED": _State(JobState.SUCCEEDED),
    "CANCELLED": _State(JobState.CANCELLED),
    "FAILED": _State(JobState.FAILED),
    "OUT_OF_MEMORY": _State(JobState.FAILED, "a node was out of the memory that the job asked for"),
    "TIMEOUT": _State(JobState.EXPIRED, "its time limit was reached"),
    "DEADLINE": _State(JobState.EXPIRED, "its deadline was reached"),
    "NODE_FAIL": _State(JobState.FAILED, "a node failed"),
    "BOOT_FAIL": _State(JobState.FAILED, "a node did not boot"),
    "LAUNCH_FAILED": _State(JobState.FAILED, "Slurm could not start it"),
    "PREEMPTED": _State(JobState.FAILED, "it was preempted"),
}

_INFRASTRUCTURE = frozenset({"NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "PREEMPTED"})
_SHOWN = 8
"""The most replicas whose nodes are named to people; `-o json` has all."""

_LAUNCH_FAILED = "JobLaunchFailure"
"""The reason of a job in state FAILED whose batch script did not start (squeue(1))."""


class _Loss(NamedTuple):
    """How a job was lost, and the nodes that failed, if they are known."""

    message: str
    nodes: tuple[str, ...]


def _loss(record: JobRecord, states: States) -> _Loss | None:
    """The cluster's reasons for a job's end; None if the job itself has ended or failed.

    A job whose ranks lose a peer fails before Slurm notices the failure of the peer's node.
    """
    nodes = (record.failed_node,) if record.failed_node else ()
    ended = f"the cluster ended the job{f' on {record.failed_node}' if nodes else ''}: "
    if record.state in _INFRASTRUCTURE:
        return _Loss(ended + record.state, nodes)
    if record.state != "FAILED":
        return None
    if record.reason == _LAUNCH_FAILED:
        return _Loss(ended + record.reason, nodes)
    if states.suspects and states.restart == record.restarts:  # the job may have failed by itself
        which = "nodes that were down, drained or silent when the job failed"
        return _Loss(f"{which}: {','.join(states.suspects)}", states.suspects)
    if states.unhealthy and states.restart == record.restarts:
        which = "nodes that have failed the job's checks"
        return _Loss(f"{which}: {','.join(states.unhealthy)}", states.unhealthy)
    return None


_REASONS = {
    "Priority": "jobs with a higher priority are before it",
    "Resources": "it waits for nodes",
    "Dependency": "it waits for another job",
    "BeginTime": "it may not begin yet",
    "JobHeldUser": "you hold it: scontrol release",
    "JobHeldAdmin": "an administrator holds it",
    "PartitionConfig": "its partition does not take it",
    "QOSNotAllowed": "its partition or account does not take its quality of service",
    "PartitionTimeLimit": "its time limit is above its partition's",
    "PartitionNodeLimit": "it asks for more nodes than its partition allows",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is inactive",
    "ReqNodeNotAvail": "a node that it needs is not available",
    "Reservation": "it waits for its reservation",
    "Licenses": "it waits for a license",
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": (
        "the nodes that it needs are down, drained or reserved"
    ),
}
_HELD = r"(?i:.*held)|JobHold"
"""Reasons of a job that waits for a person, although Slurm shows an expected start."""

_KINDS = (
    ("QOS", "a limit of its quality of service stops it"),
    ("Assoc", "a limit of your account stops it"),
    (_HELD, "it is held in the queue: scontrol release"),
)
"""Beginnings of reasons that have no text of their own."""

_MAINTENANCE = (
    "its time limit reaches into a maintenance, whose times `scontrol show reservation` shows"
)
_NEVER = {
    "PartitionTimeLimit": ("set a shorter limits.timeout, or another partition", "limits.timeout"),
    "PartitionNodeLimit": ("ask for fewer nodes, or another partition", "workers.count"),
    "PartitionConfig": (
        "`scontrol show partition` shows who may use it: set another partition or account",
        "targets.slurm.partition",
    ),
    "BadConstraints": ("no node has these features", "targets.slurm.constraint"),
    "DependencyNeverSatisfied": (
        "cancel the run, and submit it with another --dependency",
        "targets.slurm.sbatch",
    ),
    **dict.fromkeys(
        ("InvalidAccount", "AccountNotAllowed"),
        ("`sacctmgr show associations user=$USER` lists your accounts", "targets.slurm.account"),
    ),
    **dict.fromkeys(
        ("InvalidQOS", "QOSNotAllowed"),
        ("`sacctmgr show associations user=$USER` lists them", "targets.slurm.qos"),
    ),
}
"""Reasons for which a job pends until its request changes, with the remedy and the key."""

_LIMIT_OF_A_JOB = re.compile(r"(QOS|Assoc)(Max|Min)\w*Per(Job|Node)\w*")
"""Reasons of job_reason_codes.html that one job cannot outwait, unlike those of a user's jobs."""


def _never(word: str) -> tuple[str, str] | None:
    """The remedy and the key for a reason for which a job never starts; None if it may start."""
    if _LIMIT_OF_A_JOB.fullmatch(word):
        path = "limits.timeout" if "Wall" in word else "workers.count"
        return "`sacctmgr show qos` shows the limits of a job: ask for less", path
    return _NEVER.get(word)


_DONE = (0, "done")
"""The code and the reason with which the batch script of a run that has succeeded ends."""

_NO_LOG = "53"
"""The signal that Slurm reports if a node cannot create a job's log (seen with 24.11; SckyzO's
slurm_exporter, issue 171)."""


def status_of(
    record: JobRecord | None, states: States, expected: Optional[float] = None
) -> JobStatus | None:
    """The status; None if neither Slurm nor the job's folder knows it."""
    if record is None:
        return _of_states(states)
    state, reason = _STATES.get(
        record.state, _State(JobState.RUNNING, f"its state is {record.state[:60]!r}")
    )
    if state is not JobState.RUNNING and states.ended and states.ended[1:] == _DONE:
        # A controller that was away at the job's end takes its node for failed, or queues the job
        # again (seen with 24.11), and such a start of it does nothing, see batch.sh.
        return _of_states(states)
    if re.match(_HELD, record.reason) or _never(record.reason.partition(",")[0]):
        expected = None
    is_present = states.restart == record.restarts  # not of an earlier start
    ended = states.ended if is_present else None
    is_running = is_present and states.running is not None
    if state is JobState.QUEUED:
        reason = _pending_reason(record, expected) or reason
    elif state is JobState.RUNNING and not is_running and record.state == "RUNNING":
        state, reason = JobState.STARTING, "its nodes prove the shared folder"
    elif ended and ended.reason == "time-limit" and state in (JobState.FAILED, JobState.SUCCEEDED):
        if ended.code:
            state, reason = JobState.EXPIRED, "it was stopped before its time limit"
    elif state is JobState.FAILED and reason is None:
        reason = _failed_reason(record, states)
    started = event_time(record.started) if state is not JobState.QUEUED else None
    return _status(record, states, state, reason, _since(record, state), started, expected)


def _status(
    record: JobRecord,
    states: States,
    state: JobState,
    reason: Optional[str],
    time: str,
    started: Optional[str],
    expected: Optional[float] = None,
) -> JobStatus:
    loss = _loss(record, states)
    return JobStatus(
        state=state,
        time=time,
        started=started,
        reason=_lost_reason(record, loss) or reason,
        attempt=record.restarts + 1 + states.failed,
        restarted=_restarted(states),
        is_interrupted=states.code is None and record.restarts > 0,
        facts=list(_facts(record, states, expected, loss)),
        findings=list(_findings(record, state, loss)),
    )


def _of_states(states: States) -> JobStatus | None:
    """The status of a job that Slurm has forgotten."""
    if states.started is None:
        return None
    started = states.running or states.started
    if states.ended is None:
        lost = "Slurm no longer knows the job, and the job has not written down how it ended"
        finding = warning(
            "forgotten",
            f"{lost}: it was killed, or its node failed",
            "the cluster's accounting or its administrators may know more",
        )
        return JobStatus(
            state=JobState.FAILED,
            time=now(),
            started=started,
            reason=lost,
            attempt=states.restart + 1 + states.failed,
            restarted=_restarted(states),
            is_interrupted=states.code is None and states.restart > 0,
            findings=[finding],
        )
    code, why = states.ended.code, states.ended.reason
    reason: Optional[str] = None
    if why == "time-limit" and code:
        state, reason = JobState.EXPIRED, "its time limit was reached"
    elif why == "ended" and code:
        state, reason = JobState.CANCELLED, "Slurm ended it"
    elif code:
        state = JobState.FAILED
        reason = f"exit code {code}" if why == "done" else why
    else:
        state = JobState.SUCCEEDED
    number = str(states.owner).rpartition("/")[2]
    record = JobRecord(
        int(number) if number.isdecimal() else 0,
        "FAILED" if state is JobState.FAILED else "",
        restarts=states.restart,
    )
    return _status(record, states, state, reason, states.ended.time, started)


def _restarted(states: States) -> str:
    """Why the present attempt follows another one, if it does."""
    if states.code is None:
        return "Slurm has requeued it"
    return f"exit code {states.code}; the batch script has started all replicas again"


def _lost_reason(record: JobRecord, loss: _Loss | None) -> Optional[str]:
    if loss is None or not loss.nodes:
        return None
    return f"{_STATES[record.state].reason or 'a node failed'}: {', '.join(loss.nodes)}"


def _since(record: JobRecord, state: JobState) -> str:
    since = {
        JobState.QUEUED: record.submitted,
        JobState.STARTING: record.started,
        JobState.RUNNING: record.started,
    }.get(state, record.ended)
    return event_time(since) or event_time(record.submitted) or now()


def event_time(seconds: Optional[float]) -> Optional[str]:
    """Seconds since 1970 as the time of an event."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _pending_reason(record: JobRecord, expected: Optional[float]) -> Optional[str]:
    if not record.reason:
        return None
    shown = record.reason.replace(",_", ", ").replace("_", " ")
    text = _REASONS.get(record.reason) or _REASONS.get(record.reason.partition(",")[0])
    text = text or next((each for kind, each in _KINDS if re.match(kind, record.reason)), None)
    if shown.endswith("Reserved for maintenance"):
        text = _MAINTENANCE
    text = f"{text} ({shown})" if text else shown
    start = event_time(expected)
    return f"{text}; Slurm expects to start it at {start[:16]}Z" if start else text


def _failed_reason(record: JobRecord, states: States) -> str:
    if states.ended is not None and states.ended.reason not in ("done", "ended", "time-limit"):
        return states.ended.reason
    if record.reason == _LAUNCH_FAILED:
        return "Slurm could not start it"
    code, _, signal = record.exit_code.partition(":")
    if signal == _NO_LOG and states.started is None:
        return (
            "its first node could not create the job's log: targets.slurm.shared does not exist "
            "there, or you may not write to it"
        )
    return f"signal {signal}" if signal not in ("", "0") else f"exit code {code}"


def _facts(
    record: JobRecord, states: States, expected: Optional[float], loss: _Loss | None
) -> Iterator[Fact]:
    yield Fact("slurm_job", f"Slurm job {record.id}", record.id)
    if record.nodes:
        yield Fact("nodes", f"nodes {record.nodes}", record.nodes)
    if record.restarts:
        yield Fact("requeued", f"requeued {record.restarts} time(s)", record.restarts)
    if expected is not None and record.state == "PENDING":
        start = event_time(expected)
        yield Fact("expected_start", f"expected to start at {start}", start)
    if loss and loss.nodes:
        nodes = ",".join(loss.nodes)
        yield Fact(FAILED_NODE, f"failed: {nodes}", nodes)
    if states.nodes:
        value = dict(states.nodes)
        shown = [f"{replica} on {node}" for replica, node in states.nodes]
        yield Fact("replica_nodes", first_of(shown, _SHOWN), value)


def _findings(record: JobRecord, state: JobState, loss: _Loss | None) -> Iterator[Finding]:
    word = record.reason.partition(",")[0]
    if state is JobState.QUEUED and (found := _never(word)):
        remedy, path = found
        message = f"Slurm does not start it as long as its request is so: {word}"
        yield warning("pending", message, remedy, path)
    if loss:
        remedy = f" with targets.slurm.exclude: {','.join(loss.nodes)}" if loss.nodes else ""
        yield error(NODE_FAILED, loss.message, f"submit it again{remedy}", "targets.slurm.exclude")
    if record.state == "OUT_OF_MEMORY":
        message = "a node was out of the memory that the job asked for"
        yield error("memory", message, "set a larger targets.slurm.memory", "targets.slurm.memory")
    if record.restarts:
        yield note("requeued", f"Slurm has requeued the job {record.restarts} time(s)", None)
