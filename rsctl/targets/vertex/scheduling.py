"""When a job runs, for how long, and how often it is tried: `Scheduling` of a CustomJob. Pure.

Flex start's rules are from Google's documentation, "Schedule training jobs based on resource
availability"; how Vertex AI restarts is from "Understand the training service".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

from rsctl.catalog.vertex import rules
from rsctl.findings import Finding, error, note, warning
from rsctl.spec.job import Job
from rsctl.spec.units import Duration

_DAY = 86_400
_CAPACITY = "targets.vertex.capacity"
_STRATEGIES = {"standard": "STANDARD", "spot": "SPOT", "flex-start": "FLEX_START"}


def strategy_of(job: Job) -> Optional[str]:
    """SPOT, FLEX_START, STANDARD, or None if the job leaves it open."""
    capacity = job.targets.vertex.capacity
    if capacity is None:
        return "SPOT" if job.limits.spot else None
    return _STRATEGIES[capacity]


def scheduling(job: Job) -> dict[str, Any]:
    """The field `scheduling`.

    A rank that is started anew alone cannot join the others, so a restart is one of the whole job.
    """
    limits, strategy = job.limits, strategy_of(job)
    fields: dict[str, Any] = {}
    if limits.timeout:
        fields["timeout"] = seconds(limits.timeout)
    if limits.retries:
        fields["restartJobOnWorkerRestart"] = True
    else:
        fields["disableRetries"] = True
    if strategy:
        fields["strategy"] = strategy
    if strategy == "FLEX_START" and limits.queue:
        fields["maxWaitDuration"] = seconds(limits.queue)
    return fields


def seconds(duration: Duration) -> str:
    """A duration as protobuf has it in JSON, such as `7200s`."""
    return f"{float(duration):.9f}".rstrip("0").rstrip(".") + "s"


def scheduling_findings(job: Job) -> Iterator[Finding]:
    """What of `limits` and the capacity cannot be had."""
    limits, strategy, capacity = job.limits, strategy_of(job), job.targets.vertex.capacity
    if limits.timeout is None:
        message = (
            f"Vertex AI ends the job after {rules().default_timeout // _DAY} days, its default"
        )
        yield note("timeout", message, "set limits.timeout", "limits")
    if limits.spot and strategy != "SPOT":
        message = f"limits.spot asks for spot machines, and capacity for {capacity}"
        yield error("capacity", message, "keep one of the two", _CAPACITY)
    if limits.queue and strategy != "FLEX_START":
        yield warning(
            "queue",
            "Vertex AI itself limits the wait for capacity with flex start only: rsctl cancels a "
            "job that waits longer, as long as somebody watches it (submit, logs -f, "
            "status --watch)",
            f"do not detach, or set {_CAPACITY}: flex-start",
            "limits.queue",
        )
    if strategy == "SPOT" and not limits.retries:
        message = "spot machines are preempted, and limits.retries: 0 asks for no restart"
        yield warning("spot", message, "set limits.retries: 1, and save checkpoints", "limits.spot")
    if limits.retries:
        yield note(
            "retries",
            "Vertex AI decides itself how often: a worker that fails is restarted up to 5 times, "
            "here each time with the whole job, and a job up to 3 times; limits.retries says only "
            "whether",
            None,
            "limits.retries",
        )
    if strategy == "FLEX_START":
        yield from _flex_start(job)


def _flex_start(job: Job) -> Iterator[Finding]:
    flex, accelerator = rules().flex_start, job.workers.accelerator
    if accelerator is None or accelerator.type not in flex.gpus:
        message = f"flex start is for these GPUs: {', '.join(flex.gpus)}"
        yield error("capacity", message, "set capacity: standard or spot", _CAPACITY)
    if job.limits.timeout and job.limits.timeout > flex.longest:
        longest = Duration(flex.longest)
        message = f"a job with flex start runs {longest} at most, not {job.limits.timeout}"
        yield error("capacity", message, f"set limits.timeout: {longest}", "limits.timeout")
