"""`Scheduling` of a CustomJob: capacity, time limits and restarts, with their checks. Pure.

Flex start's rules are from Google's documentation, "Schedule training jobs based on resource
availability"; how Vertex AI restarts is from "Understand the training service".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional

from rsctl.findings import Finding, error, note, warning
from rsctl.job.job import Job
from rsctl.job.units import Duration
from rsctl.runs.folder import RestartLimit
from rsctl.targets.stalls import cloud_stall_findings
from rsctl.targets.vertex.catalog import rules
from rsctl.targets.vertex.options import vertex_options

_DAY = 86_400
_MOST_RESTARTS = 23
"""The restarts of a job one of whose workers always fails: 5 and 1 in each of its 4 starts, less
the last.
"""

_CAPACITY = "targets.vertex.capacity"
_RESTART = "targets.vertex.restart"
_STRATEGIES = {"standard": "STANDARD", "spot": "SPOT", "flex-start": "FLEX_START"}


def strategy_of(job: Job) -> Optional[str]:
    """SPOT, FLEX_START, STANDARD, or None if the job leaves it open."""
    capacity = vertex_options(job).capacity
    if capacity is None:
        return "SPOT" if job.limits.spot else None
    return _STRATEGIES[capacity]


def spot_key(job: Job) -> tuple[str, str]:
    """The key that requests spot machines, and its value without them."""
    is_own = vertex_options(job).capacity == "spot"
    return (_CAPACITY, "standard") if is_own else ("limits.spot", "false")


def scheduling(job: Job) -> dict[str, Any]:
    """The field `scheduling`.

    A rank that restarts alone cannot join the others, so the whole job restarts, unless the job
    leaves the kind of restart to the service.
    """
    limits, strategy = job.limits, strategy_of(job)
    fields: dict[str, Any] = {}
    if limits.timeout:
        fields["timeout"] = seconds(limits.timeout)
    if limits.most_restarts == 0:
        fields["disableRetries"] = True
    elif _restarts_job(job):
        fields["restartJobOnWorkerRestart"] = True
    if strategy:
        fields["strategy"] = strategy
    if strategy == "FLEX_START" and limits.queue is not None:
        fields["maxWaitDuration"] = seconds(Duration(limits.queue))
    return fields


def _restarts_job(job: Job) -> bool:
    restart = vertex_options(job).restart
    return restart == "job" or (restart is None and bool(job.limits.most_restarts))


def seconds(duration: Duration) -> str:
    """A duration in protobuf's JSON format, such as `7200s`."""
    return f"{float(duration):.9f}".rstrip("0").rstrip(".") + "s"


def restart_limit(job: Job, request: Mapping[str, Any]) -> RestartLimit | None:
    """The number of restarts after which rsctl ends the job, and whether spot machines are
    preempted.

    `request` is the one that is sent.
    """
    most = job.limits.most_restarts
    fields = request["body"]["jobSpec"].get("scheduling") or {}
    return None if most is None else RestartLimit(most, fields.get("strategy") == "SPOT")


def scheduling_findings(job: Job) -> Iterator[Finding]:
    """The findings on `limits` and the capacity."""
    limits, strategy, capacity = job.limits, strategy_of(job), vertex_options(job).capacity
    if limits.timeout is None:
        message = (
            f"Vertex AI ends the job after {rules().default_timeout // _DAY} days, its default"
        )
        yield note("timeout", message, "set limits.timeout", "limits")
    if limits.grace is not None:
        yield from _grace(job)
    if limits.spot and strategy != "SPOT":
        message = f"limits.spot requests spot machines, but capacity requests {capacity}"
        yield error("capacity", message, "keep one of the two", _CAPACITY)
    if limits.queue and strategy != "FLEX_START":
        yield warning(
            "queue",
            "Vertex AI limits the wait for capacity only with flex start: rsctl cancels a job "
            "that waits longer, but only while a command watches it (submit, watch, logs -f, "
            "status --watch)",
            f"do not detach, or set {_CAPACITY}: flex-start",
            "limits.queue",
        )
    if strategy == "SPOT":
        yield from _spot(job)
    yield from _restarts(job)
    yield from cloud_stall_findings(job, "Vertex AI")
    if strategy == "FLEX_START":
        yield from _flex_start(job)


def _grace(job: Job) -> Iterator[Finding]:
    """Google documents no signal, and no time, before it kills containers."""
    path = "limits.grace"
    if not job.run.is_launched or job.run.package is not None:
        message = "limits.grace is not used: rsctl-launch is not in the container"
        yield note("unused", message, None, path)
    elif job.limits.timeout is None:
        message = "Vertex AI does not announce the end of a job, which has no time limit of its own"
        remedy = "set limits.timeout: rsctl-launch asks the ranks to end limits.grace before it"
        yield warning("grace", message, remedy, path)
    else:
        message = (
            "rsctl-launch asks the ranks to end this long before limits.timeout, counted from the "
            "start of the container; Google does not document how much time a cancelled or "
            "preempted job has"
        )
        yield note("grace", message, None, path)


def _spot(job: Job) -> Iterator[Finding]:
    """Google documents up to 6 restarts, and `disableRetries` for internal errors only."""
    message = (
        "Vertex AI restarts a job when its spot machines are preempted, up to 6 times, "
        "regardless of limits.retries"
    )
    key, _ = spot_key(job)
    if job.checkpoints:
        yield note("spot", message, None, key)
    else:
        remedy = "set checkpoints, and let the script resume from them"
        yield warning("spot", f"{message}, and it starts from the beginning each time", remedy, key)


def _restarts(job: Job) -> Iterator[Finding]:
    """Check the restarts; rsctl enforces their number, since the API has only a switch."""
    most, restart = job.limits.most_restarts, vertex_options(job).restart
    path = "limits.retries" if job.limits.restarts is None else "limits.restarts"
    if restart and most == 0:
        message = "restarts are disabled, so their scope has no effect"
        yield error("restarts", message, "set limits.restarts: platform, or a number", _RESTART)
    elif restart == "worker" and job.workers.count > 1 and job.run.is_launched:
        message = "rsctl's ranks cannot join a running job: a worker that is restarted alone fails"
        yield warning("restarts", message, f"set {_RESTART}: job", _RESTART)
    if most is None and restart != "job":
        message = (
            "Vertex AI's default: a failed worker is restarted up to 5 times, alone, and then "
            "the job up to 3 times; rsctl's ranks cannot join a running job"
        )
        yield note("restarts", message, None, path)
    elif most is None:
        message = (
            "Vertex AI's default: after a failure of a worker, the whole job is restarted, up to "
            "5 times for each worker and then up to 3 times for the job"
        )
        yield note("restarts", message, None, path)
    elif most:
        yield note(
            "retries",
            "Vertex AI has no setting for the number of restarts: rsctl ends the job at restart "
            f"{most + 1}, but only while a command watches it (submit, watch, logs -f, status "
            "--watch). Otherwise Vertex AI's own limits apply: 5 restarts for a "
            "failed worker, here of the whole job, and 3 of the job, together at most "
            f"{_MOST_RESTARTS} for one worker",
            None,
            path,
        )


def _flex_start(job: Job) -> Iterator[Finding]:
    flex, accelerator = rules().flex_start, job.workers.accelerator
    if job.limits.queue is None:
        message = "by default, flex start waits a day for machines; after that the job fails"
        yield note("queue", message, "set limits.queue; 0 means no limit", "limits.queue")
    if accelerator is None or accelerator.type not in flex.gpus:
        message = f"flex start supports only these GPUs: {', '.join(flex.gpus)}"
        yield error("capacity", message, "set capacity: standard", _CAPACITY)
    if job.limits.timeout and job.limits.timeout > flex.longest:
        longest = Duration(flex.longest)
        message = f"a job with flex start can run for at most {longest}, not {job.limits.timeout}"
        yield error("capacity", message, f"set limits.timeout: {longest}", "limits.timeout")
