"""The events of a run, from a target to the terminal, to NDJSON and to the store.

`time` is always RFC 3339 in UTC with microseconds, 27 characters, so that times sort as text.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, Literal, Optional, Union

import msgspec

from rsctl.findings import Finding, JobState

Stream = Literal["stdout", "stderr"]
TIME_LENGTH = 27


def now() -> str:
    """The present, in the form of every event's `time`."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """An event's time as an aware datetime. Raises ValueError."""
    if len(text) == 27 and text[4] + text[7] + text[10] + text[19] + text[26] == "--T.Z":
        return datetime.fromisoformat(text[:26]).replace(tzinfo=timezone.utc)  # ten times as fast
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)


def unix_time(text: str) -> float | None:
    """An event's time in Unix seconds; None for an invalid time, which a job may report."""
    try:
        return parse_time(text).timestamp()
    except ValueError:
        return None


def seconds_between(start: str, end: str) -> float:
    """Seconds from one event time to another."""
    return (parse_time(end) - parse_time(start)).total_seconds()


class LogEvent(msgspec.Struct, tag="log", gc=False, frozen=True, omit_defaults=True):
    """One line of a replica's log. `id` is unique within the log, and the same whenever it is read.

    `rank` is the rank that wrote it, such as `worker-0/3`, where several ranks share the log.
    """

    time: str
    replica: str
    id: str
    stream: Stream
    text: str
    rank: Optional[str] = None


class StateEvent(msgspec.Struct, tag="state", kw_only=True, frozen=True):
    """The job (no replica) or one replica entered a state."""

    time: str
    state: JobState
    replica: Optional[str] = None
    attempt: int = 1
    exit_code: Optional[int] = None
    reason: Optional[str] = None


class MetricEvent(msgspec.Struct, tag="metric", kw_only=True, gc=False, frozen=True):
    """One value of one metric. `step` is None if the log does not have it."""

    time: str
    replica: str
    name: str
    value: float
    step: Optional[int] = None


class FindingEvent(msgspec.Struct, tag="finding", kw_only=True, frozen=True):
    """A finding that came up while the job ran, on a replica or about the job."""

    time: str
    finding: Finding
    replica: Optional[str] = None


EARLY_END = "early-end"
"""The code of the cause of a failure by a rank that ended with exit code 0."""

STALL = "stall"
"""The code of the finding that the job makes no progress."""

WATCH = "watch"
"""The code of the finding that a rule of `watch` applies."""

ENDED_EXIT_CODE = 124
"""The exit code of an attempt that rsctl ends for a stall or a rule of `watch`, as timeout(1)."""

_REPLICA = re.compile(r"\b[a-z][a-z0-9-]*-[0-9]+\b")

_ENDINGS = {EARLY_END: "left early", STALL: "stalled", WATCH: "was ended by a rule of watch"}
"""How an attempt ends in which no replica fails by itself, by the code of a cause."""

_LOSSES = ("worker-lost", "reducer-lost")
"""The codes of the transport's findings that name the rank or reducer that was lost."""


class Failure(msgspec.Struct, kw_only=True, frozen=True):
    """The first failure of a job: the replica, how and when it failed, its last lines, and their
    known causes.

    `causes` pair a known cause with its remedy. `log` is the replica whose log has the failure, if
    it is another one: mpirun brings the output of all ranks to the chief.
    """

    replica: str
    time: str
    exit_code: int
    signal: Optional[str] = None
    rank: Optional[int] = None
    log: Optional[str] = None
    lines: list[str] = []
    causes: list[Finding] = []

    @property
    def is_early_end(self) -> bool:
        """Whether the replica has not failed, but left others that waited for it."""
        return [cause.code for cause in self.causes[:1]] == [EARLY_END]

    @property
    def place(self) -> str:
        """How the replica stands among the failures: it failed first, or lost a peer.

        A rank or reducer that is silent has not ended, so the first to fail is a rank that lost it.
        """
        first = self.causes[0] if self.causes else None
        has_lost = first is not None and first.severity == "error" and first.code in _LOSSES
        return "lost a peer" if has_lost else "failed first"

    @property
    def who(self) -> str:
        """The replica, with the rank if it is known: `worker-1 (rank 3)`."""
        return self.replica + (f" (rank {self.rank})" if self.rank is not None else "")

    @property
    def headline(self) -> str:
        """Who ended, and how: `left early`, or the place and the exit code or signal."""
        found = (_ENDINGS[cause.code] for cause in self.causes if cause.code in _ENDINGS)
        how = f"killed by {self.signal}" if self.signal else f"exit code {self.exit_code}"
        return f"{self.who} {next(found, f'{self.place}: {how}')}"

    def when(self, began: str | None) -> str:
        """` at 12:00:07 UTC, 5.0 s after the start`, which is left out without it."""
        after = ""
        if began is not None:
            with suppress(ValueError):  # the time is as the job has reported it
                after = f", {seconds_between(began, self.time):.1f} s after the start"
        return f" at {self.time[11:19]} UTC{after}"

    @property
    def guilty(self) -> frozenset[str]:
        """The replica, and the one that its first cause names first: others are those it waits
        for, or what they did instead.
        """
        named = [
            found[0] for cause in self.causes[:1] if (found := _REPLICA.search(cause.message[:200]))
        ]
        return frozenset([self.replica, *named])

    def why_failed(self, replica: str) -> str | None:
        """Why another replica failed too; None for those that are guilty."""
        is_victim = replica not in self.guilty
        return f"as a result of the failure of {self.replica}" if is_victim else None

    @property
    def has_victims(self) -> bool:
        """Whether other replicas fail because of this one: not if rsctl ended all of them."""
        return not any(cause.code in (STALL, WATCH) for cause in self.causes)

    @property
    def reason(self) -> str:
        """The reason why the job failed, in one sentence."""
        if self.is_early_end:
            return self.causes[0].message
        return f"{self.replica} failed with exit code {self.exit_code}"


class UnnamedFailure(msgspec.Struct, kw_only=True, frozen=True):
    """A failed replica that the platform does not name; `text` is the platform's text."""

    exit_code: int
    signal: Optional[str] = None
    text: str = ""


class Attempt(msgspec.Struct, kw_only=True):
    """A start of the job that ended and was followed by another one; `attempt` counts from 1.

    `failure` is its first failure, None if nothing in it failed by itself, for example if machines
    were taken away.
    """

    attempt: int
    ended: str
    reason: Optional[str] = None
    failure: Optional[Failure] = None


class TriedPlacement(msgspec.Struct, kw_only=True, frozen=True):
    """A region and machine type at which a run is tried, and the result there.

    `began` is None until it is tried. `reason` is why it is, or was, in `state`; `url` the job's
    there, `dollars` the cost of a job that has ended there, if known.
    """

    region: Optional[str] = None
    machine: Optional[str] = None
    state: Optional[JobState] = None
    reason: Optional[str] = None
    began: Optional[str] = None
    ended: Optional[str] = None
    url: Optional[str] = None
    dollars: Optional[float] = None

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.region, self.machine)))


class ResultEvent(msgspec.Struct, tag="result", kw_only=True, frozen=True):
    """The last event: how the run ended, as far as its watcher knows.

    `run` is None if no run was created. `results` are the locations of its outputs, its checkpoints
    and, on clouds, its model. `cost` is a RunCost where machines are billed. `attempts` are the
    starts before the last one, whose number is `attempt`; `placements` are the tried placements, if
    it had more than one.
    """

    time: str
    run: Optional[str] = None
    state: JobState
    exit_code: int
    first_failure: Optional[Failure] = None
    metrics: dict[str, Any] = {}
    url: Optional[str] = None
    results: dict[str, str] = {}
    attempt: int = 1
    attempts: list[Attempt] = []
    placements: list[TriedPlacement] = []
    cost: Optional[dict[str, Any]] = None


Event = Union[LogEvent, StateEvent, MetricEvent, FindingEvent, ResultEvent]

Cursor = dict[str, int]
"""How far each replica's log has been read: resuming from it neither loses nor repeats a line."""
