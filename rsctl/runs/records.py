"""A run, its replicas and its facts, in the form of the store."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import msgspec

from rsctl.findings import JobState
from rsctl.runs.stream.events import Attempt, Failure, TriedPlacement
from rsctl.runs.stream.metrics import MetricSpec


class Replica(msgspec.Struct, kw_only=True, frozen=True):
    """A replica's latest state and when it entered it."""

    replica: str
    state: JobState
    since: str
    exit_code: Optional[int] = None
    reason: Optional[str] = None


class Fact(NamedTuple):
    """Something worth knowing of a run that no other target has, such as the time that is billed.

    `value` is what `status -o json` has under the name; `text` is for people.
    """

    name: str
    text: str
    value: Any


class RunRecord(msgspec.Struct, kw_only=True, frozen=True):
    """One run as the store knows it. `plan` is what `rsctl plan -o json` printed for it, `settings`
    what was laid over the job file by `--set`, `spec` that file as written, without secrets; None
    for a job that was made in Python, and for runs of earlier versions.

    `attempts` are the starts before the one that `attempt` is the number of. `placements` are where
    it is tried in turn, if it has more than one; `plan` is that of the one where it is.
    """

    run: str
    name: str
    target: str
    url: str
    state: JobState
    created: str
    reason: Optional[str] = None
    exit_code: Optional[int] = None
    attempt: int = 1
    started: Optional[str] = None
    ended: Optional[str] = None
    first_failure: Optional[Failure] = None
    attempts: list[Attempt] = []
    placements: list[TriedPlacement] = []
    replicas: list[Replica] = []
    plan: dict[str, Any] = {}
    metrics_spec: dict[str, MetricSpec] = {}
    settings: list[str] = []
    spec: Optional[str] = None
    facts: list[Fact] = []


def replica_order(replica: str) -> tuple[bool, str, int, int]:
    """Sort key: workers before reducers, each by number, ranks such as `worker-0/3` too."""
    name, _, rank = replica.partition("/")
    role, _, index = name.rpartition("-")
    return (
        role != "worker",
        role,
        int(index) if index.isdigit() else 0,
        int(rank) if rank.isdigit() else -1,
    )
