"""A run, its replicas and its facts, in the form of the store."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import msgspec

from rsctl.findings import JobState, first_of
from rsctl.runs.stream.events import Attempt, Failure, TriedPlacement
from rsctl.runs.stream.metrics import MetricSpec

_MOST_VICTIMS = 8  # that a text names


class Replica(msgspec.Struct, kw_only=True, frozen=True):
    """A replica's latest state and when it entered it."""

    replica: str
    state: JobState
    since: str
    exit_code: Optional[int] = None
    reason: Optional[str] = None


class Fact(NamedTuple):
    """A fact about a run that is specific to its target, such as the billed time.

    `value` is the value in `status -o json` under the name; `text` is for people.
    """

    name: str
    text: str
    value: Any


PHASES = "phases"
"""The fact with a job's phases, a list of objects. Those with `start`, a time, also have `cause`,
see `rsctl.runs.goodput`, which is null while the job's program runs, and `billed`.
"""

FAILED_NODE = "failed_node"
"""The fact that names the node whose failure has ended a job."""

NODE_FAILED = "node-failed"
"""The code of the finding that the cluster ended a job for reasons that are not the job's."""


class RunRecord(msgspec.Struct, kw_only=True, frozen=True):
    """One run in the store. `plan` is the output of `rsctl plan -o json` for it, `settings` are the
    overrides by `--set`, `spec` is the job file as written, without secrets; None for a job that
    was made in Python, and for runs of earlier versions.

    `attempt` is the number of the present start, `attempts` are the starts before it. `placements`
    are the placements to try in turn, if there is more than one; `plan` belongs to the present one.
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

    def fact(self, name: str) -> Any:
        """The value of the fact with this name; None if there is none."""
        return next((fact.value for fact in self.facts if fact.name == name), None)

    @property
    def is_located(self) -> bool:
        """Whether a cloud has given the URL of its job; otherwise `url` is made of its own ID."""
        return self.url != f"{self.target}://{self.run}"

    @property
    def victims(self) -> list[str]:
        """The replicas that failed because of the first failure."""
        failure = self.first_failure
        if failure is None or not failure.has_victims:
            return []
        guilty = failure.guilty
        return [r.replica for r in self.replicas if r.exit_code and r.replica not in guilty]

    @property
    def victims_text(self) -> str:
        """The victims for people, or empty: of many the first."""
        return first_of(self.victims, _MOST_VICTIMS)


class RunSummary(NamedTuple):
    """One run in a list: of `RunRecord` what is short."""

    run: str
    name: str
    target: str
    url: str
    state: JobState
    created: str
    reason: str | None
    exit_code: int | None
    attempt: int
    started: str | None
    ended: str | None


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
