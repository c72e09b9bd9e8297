"""Runs that are recorded without a job, and what is said to a user who is refused."""

from __future__ import annotations

from typing import Any

from rsctl.findings import JobState, RsctlError
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import StateEvent


def at(second: float) -> str:
    return f"2026-01-31T12:00:{second:09.6f}Z"


def add(
    name: str = "job-1", state: str = "running", target: str = "process", **more: Any
) -> RunRecord:
    pools = [{"role": "worker", "count": 2}, {"role": "ps", "count": 1}]
    about = {
        "target": target,
        "url": f"{target}://{name}",
        "created": at(0),
        "plan": {"pools": pools},
    }
    store = Store()
    store.add(RunRecord(**{"run": name, "name": "job", "state": JobState.QUEUED, **about, **more}))
    store.record(name, StateEvent(time=at(1), state=JobState(state)))
    return store.find(name)


def refused(problem: RsctlError) -> str:
    [finding] = problem.findings
    return f"{finding.message} -> {finding.remedy}"
