"""The status of a job, from the CustomJob that the API returns. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from rsctl.findings import Finding, JobState, error, warning
from rsctl.node.roles import AWAITED_ROLES
from rsctl.runs.stream.events import Failure, now
from rsctl.runs.stream.origins import find_origin
from rsctl.targets.managed.known_errors import MORE_MEMORY
from rsctl.targets.managed.service import JobStatus
from rsctl.targets.vertex.catalog import rules
from rsctl.targets.vertex.errors import explained
from rsctl.targets.vertex.job_address import JobAddress
from rsctl.targets.vertex.job_facts import facts_of
from rsctl.targets.vertex.pools import (
    chief_variables,
    key_of_role,
    replica_of,
    replicas_of_pool,
    roles_of,
)
from rsctl.targets.vertex.timestamps import event_time, seconds_of, timestamp

_DEADLINE_EXCEEDED = 4  # google.rpc.Code
_MOST_LINES = 40
_LONG_QUEUE = 300.0
_UNTIL_EXPLAINED = 120.0


class _State(NamedTuple):
    state: JobState
    reason: Optional[str] = None
    since: str = "updateTime"


_STATES = {
    "JOB_STATE_QUEUED": _State(JobState.QUEUED, None, "createTime"),
    "JOB_STATE_PENDING": _State(JobState.STARTING, "machines are being prepared"),
    "JOB_STATE_RUNNING": _State(JobState.RUNNING, None, "startTime"),
    "JOB_STATE_SUCCEEDED": _State(JobState.SUCCEEDED, None, "endTime"),
    "JOB_STATE_FAILED": _State(JobState.FAILED, None, "endTime"),
    "JOB_STATE_CANCELLING": _State(JobState.CANCELLING),
    "JOB_STATE_CANCELLED": _State(JobState.CANCELLED, None, "endTime"),
    "JOB_STATE_PAUSED": _State(JobState.QUEUED, "it is paused"),
    "JOB_STATE_EXPIRED": _State(JobState.EXPIRED, None, "endTime"),
    "JOB_STATE_UPDATING": _State(JobState.RUNNING, "it is being updated"),
    "JOB_STATE_PARTIALLY_SUCCEEDED": _State(
        JobState.FAILED, "it succeeded only partially; some results may be missing", "endTime"
    ),
}
_BY_NUMBER = dict(enumerate(_STATES, start=1))

_EXITED = re.compile(
    r"[Tt]he replicas? (?P<who>workerpool\d+-\d+(?:(?:,| and|, and) workerpool\d+-\d+)*) "
    r"(?P<memory>ran out[ -]of[ -]memory and )?exited with a non-zero status of (?P<code>\d{1,4})"
    r"(?P<killed>\. Termination reason: OOMKilled)?"
)
_LOW_MEMORY = re.compile(
    r"[Rr]eplicas low on memory: (?P<who>workerpool\d(?:-\d+)?"
    r"(?:(?:, ?| and |, and )workerpool\d(?:-\d+)?)*)"
)
"""Not documented, and the most common text about memory in public reports."""

_MEMORY_REMEDY = (
    f"{MORE_MEMORY}: on the smallest ones, the service's own agents use up to 40% of it"
)
_QUEUE_REMEDY = (
    "jobs beyond a quota wait until others have ended: compare usage and limit of "
    "custom_model_training_* on the console's page Quotas, use another region, or list several "
    "regions and set limits.queue, the time after which the job moves to the next one"
)


def status_of(
    job: dict[str, Any], address: JobAddress, at: float, factor: float = 1.0
) -> JobStatus:
    """The status of a CustomJob; `at` is the present in seconds since 1970, `factor` the factor of
    simulated waits.
    """
    raw = job.get("state")
    name = _BY_NUMBER.get(raw, "") if isinstance(raw, int) else str(raw or "JOB_STATE_QUEUED")
    known = _STATES.get(name, _State(JobState.RUNNING, f"its state is {name[:60]!r}"))
    since = _since(job, known)
    message, code = _error(job)
    state = known.state
    if state is JobState.FAILED and code == _DEADLINE_EXCEEDED:
        state = JobState.EXPIRED
    elif state is JobState.CANCELLED and _has_used_its_time(job):
        state, message = JobState.EXPIRED, "it reached its time limit, limits.timeout"
    waits_for = at - (seconds_of(since) or at)
    is_settled = state is not JobState.FAILED or bool(message)
    return JobStatus(
        state=state,
        time=since,
        at=event_time(timestamp(at)),
        started=event_time(job.get("startTime")),
        reason=message or _missing_reason(state, waits_for) or known.reason,
        is_settled=is_settled or waits_for > _UNTIL_EXPLAINED * factor,
        ended_roles=tuple(_awaited(job)),
        failed=list(_failures(job, message, since)) if state.is_final else [],
        facts=facts_of(job, address, at),
        findings=list(_findings(job, message, state, address, waits_for)),
    )


def _since(job: dict[str, Any], known: _State) -> str:
    for key in (known.since, "updateTime", "createTime"):
        if found := event_time(job.get(key)):
            return found
    return now()


def _error(job: dict[str, Any]) -> tuple[str, Any]:
    """The message and code of google.rpc.Status, which comes about a minute after the end."""
    problem = job.get("error")
    if not isinstance(problem, dict):
        return "", None
    return str(problem.get("message") or ""), problem.get("code")


def _has_used_its_time(job: dict[str, Any]) -> bool:
    """Whether a job ran for its timeout. Google does not document the state that it then enters;
    in public reports it was cancelled.
    """
    started, ended = seconds_of(job.get("startTime")), seconds_of(job.get("endTime"))
    timeout = str(_scheduling(job).get("timeout") or f"{rules().default_timeout}s")
    try:
        longest = float(timeout.removesuffix("s"))
    except ValueError:
        return False
    return started is not None and ended is not None and ended - started >= longest


def _missing_reason(state: JobState, seconds: float) -> str | None:
    if state is JobState.FAILED and seconds < _UNTIL_EXPLAINED:
        return "Vertex AI reports the reason about a minute after the end"
    if state is JobState.QUEUED and seconds > _LONG_QUEUE:
        return "it waits for machines, perhaps because a quota is exhausted"
    return None


def _failures(job: dict[str, Any], message: str, time: str) -> Iterator[Failure]:
    roles = roles_of(job)
    exits = list(_EXITED.finditer(message))
    ends = [*(found.start() for found in exits[1:]), len(message)]
    for found, end in zip(exits, ends, strict=False):
        code = int(found["code"])
        text = message[found.start() : end].strip()
        origin = find_origin(message[found.end() : end])
        for task in re.findall(r"workerpool\d+-\d+", found["who"]):
            if name := replica_of(task, roles):
                yield Failure(
                    replica=name,
                    time=time,
                    exit_code=code,
                    signal=_signal(code) or origin.signal,
                    rank=origin.rank,
                    lines=text.splitlines()[-_MOST_LINES:],
                )
    for _, names in _low_on_memory(job, message):
        if len(names) == 1:  # of several, the text does not name which
            code = 128 + signal.SIGKILL  # from the kernel and the kubelet if memory is exhausted
            yield Failure(replica=names[0], time=time, exit_code=code, signal="SIGKILL")


def _low_on_memory(job: dict[str, Any], message: str) -> Iterator[tuple[str, list[str]]]:
    """The pools or replicas that the text names, with their possible replicas."""
    for match in _LOW_MEMORY.finditer(message):
        for who in re.findall(r"workerpool\d(?:-\d+)?", match["who"]):
            name = replica_of(who, roles_of(job))
            yield who, [name] if name else replicas_of_pool(job, int(who[-1]))


def _signal(code: int) -> str | None:
    """The signal that an exit code of a container stands for."""
    try:
        return signal.Signals(code - 128).name if code > 128 else None
    except ValueError:
        return None


def _findings(
    job: dict[str, Any], message: str, state: JobState, address: JobAddress, seconds: float
) -> Iterator[Finding]:
    known = _EXITED.split(message, maxsplit=1)[0]  # the rest is from the job's own log
    for finding in explained(
        known, address.parent.region, roles_of(job), _scheduling(job).get("strategy")
    ):
        yield finding if state.is_final else _milder(finding)
    for match in _EXITED.finditer(message):
        if match["memory"] or match["killed"]:
            tasks = re.findall(r"workerpool\d+-\d+", match["who"])
            names = [name for name in (replica_of(task, roles_of(job)) for task in tasks) if name]
            path = _machine_key(job, tasks[0])
            who = ", ".join(names)
            yield error("memory", f"{who} ran out of memory", _MEMORY_REMEDY, path)
    for pool, names in _low_on_memory(job, message):
        who = (
            names[0]
            if len(names) == 1
            else f"one of {', '.join(names) or f'the replicas of {pool}'}"
        )
        yield error("memory", f"{who} ran out of memory", _MEMORY_REMEDY, _machine_key(job, pool))
    if state is JobState.QUEUED and not message and seconds > _LONG_QUEUE:
        yield warning("queue", "the job has waited for more than five minutes", _QUEUE_REMEDY)


def _awaited(job: dict[str, Any]) -> list[str]:
    """The roles whose ends the chief has waited for."""
    named = str(chief_variables(job).get(AWAITED_ROLES) or "")
    return [role for role in ("worker", *roles_of(job)[2:]) if role in named.split(",")]


def _machine_key(job: dict[str, Any], task: str) -> str:
    """The key of the machine of a pool, or of one of its replicas."""
    number = int(task[len("workerpool")])
    return f"{key_of_role(roles_of(job)[min(number, 3)])}.machine"


def _scheduling(job: dict[str, Any]) -> dict[str, Any]:
    """The field `scheduling` of the job; empty if it has none."""
    spec = job.get("jobSpec")
    scheduling = spec.get("scheduling") if isinstance(spec, dict) else None
    return scheduling if isinstance(scheduling, dict) else {}


def _milder(finding: Finding) -> Finding:
    """While the job runs, the service itself tries again."""
    return warning(finding.code, finding.message, finding.remedy, finding.path)
