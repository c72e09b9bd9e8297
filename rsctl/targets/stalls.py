"""The settings about stalls that a target passes to its nodes and its supervisor. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from rsctl.findings import Finding, error, warning
from rsctl.job.job import Job
from rsctl.node.stall.settings import DEFAULT_STALL_SECONDS, INSPECT, STALL_SECONDS
from rsctl.runs.watch_rules import WatchSpec, seconds_or_values
from rsctl.targets.launch_command import unlaunched


def stall_seconds(job: Job) -> float:
    """`limits.stall` in seconds; 0 where no launcher of rsctl's watches the job."""
    if not job.run.is_launched:
        return 0.0
    limit = job.limits.stall
    return DEFAULT_STALL_SECONDS if limit is None else float(limit)


def stall_findings(job: Job) -> Iterator[Finding]:
    """Findings on keys that cannot work together."""
    limits = job.limits
    path, asks = "limits.on_stall", limits.on_stall != "notify"
    if not job.run.is_launched and (limits.stall is not None or asks):
        setting, remedy = unlaunched(job)
        message = f"stalls are found by rsctl-launch, which a job with {setting} does not run"
        key = path if limits.stall is None else "limits.stall"
        yield error("unsupported", message, remedy, key)
    elif asks and limits.stall == 0:
        message = f"on_stall: {limits.on_stall} has no effect, because limits.stall is 0"
        yield error("limits", message, "set limits.stall to a duration", path)
    elif limits.on_stall == "restart" and limits.most_restarts == 0:
        message = "on_stall: restart has no effect, because the job is never restarted"
        yield error("limits", message, "set limits.retries, or on_stall: fail", path)


def cloud_stall_findings(job: Job, service: str) -> Iterator[Finding]:
    """The same on a service, where rsctl's commands see what nodes report into the log."""
    yield from stall_findings(job)
    if job.limits.on_stall == "restart":
        message = f"rsctl cannot restart a running job on {service}"
        yield error("unsupported", message, "set on_stall: fail", "limits.on_stall")
    elif job.limits.on_stall == "fail":
        message = (
            f"{service} does not find stalls: rsctl cancels a job that has stalled, but only while "
            "a command watches it (submit, watch, logs -f, status --watch)"
        )
        yield warning("stall", message, "do not detach", "limits.on_stall")
    failing = [name for name, rule in job.watch.items() if rule.do == "fail"]
    if failing:
        message = (
            "rsctl cancels a job for a rule of watch only while a command watches it (submit, "
            "watch, logs -f, status --watch)"
        )
        yield warning("watch", message, "do not detach", f"watch.{failing[0]}.do")


def watch_specs(job: Job) -> dict[str, WatchSpec]:
    """The rules of `watch` as those who read the metrics need them."""
    specs = {}
    for name, rule in job.watch.items():
        values, seconds = seconds_or_values(rule.duration)
        specs[name] = WatchSpec(
            metric=rule.metric,
            when=rule.when,
            below=rule.below and str(rule.below),
            above=rule.above and str(rule.above),
            values=values,
            seconds=seconds,
            fails=rule.do == "fail",
        )
    return specs


def stall_env(job: Job) -> dict[str, Optional[str]]:
    """The variables of a node for `limits.stall` and `comm.debug`, without defaults."""
    env: dict[str, Optional[str]] = {}
    if job.limits.stall is not None:
        env[STALL_SECONDS] = f"{float(job.limits.stall):.15g}"
    if job.comm.debug == "off":
        env[INSPECT] = "off"
    return env
