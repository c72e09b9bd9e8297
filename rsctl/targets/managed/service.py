"""The contract of a cloud's job service: the part that differs from cloud to cloud.

`target.ManagedTarget` does the rest: it keeps the log and the states in the run's folder, the
metrics in the store, and sees to it that only one process a run asks the cloud.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional, Protocol, TypeVar

import msgspec

from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error
from rsctl.runs.records import Fact as Fact
from rsctl.runs.stream.events import Failure, LogEvent, MetricEvent, UnnamedFailure
from rsctl.targets.base import Pool

T = TypeVar("T")

Measured = Mapping[str, Mapping[str, float]]
"""By replica, the last value of each metric that begins with `cloud.`, less that."""


NOT_FOUND = "not-found"
"""The code of the finding that there is no such job; the end of a run that had one."""


class Unreachable(Exception):
    """The cloud gave no answer, or asks to be asked later: nothing is wrong with the job.

    Text: who gave none, and what happened. Whoever collects tries again later, and reports it.
    """


class NoCapacity(RsctlError):
    """A job was not created since there are no machines for it there, or none by the quota."""


SERVICE = ""
"""The `replica` of a line that the cloud's service itself has written into a job's log."""


class JobLog(Protocol):
    """Reads a job's log to its end, every line once.

    It decides itself when a request is due (`read` returns None at once if none is), reads again
    over what is recent for lines that came late, and leaves out those it has given before.
    """

    def read(self) -> list[LogEvent] | None:
        """The next lines in order of time, also of SERVICE; None if it is not time to ask again.

        At most one request. Raises Unreachable, or RsctlError for what will not pass by itself.
        """

    def finish(self, ended: str) -> None:
        """The job ended at this time: read to the end, and on until no late lines are expected.

        The wait counts from `ended`, so that the log of an old job is complete immediately.
        """

    @property
    def is_complete(self) -> bool:
        """Whether all has been read, after `finish`."""

    def cursor(self) -> dict[str, Any]:
        """The position where another reader of this log continues, as JSON; its size is bounded."""


class JobStatus(msgspec.Struct, kw_only=True):
    """The status of a job by the cloud.

    `time` is since when the state is so, `started` when it began to run, if it has. `reason` is a
    text for people, such as why it is still queued. `failed` are the replicas that have failed by
    the cloud's report, not those that were stopped in their wake; their `lines` are what it
    reports of each, their `causes` come from others. `unnamed` is one that has failed where the
    cloud does not say which: its log shows it. Of a job that has succeeded, all replicas of
    `ended_roles` have ended by themselves. `findings` are reported once each, such as a quota
    that is full. A job that has ended is not `is_settled` while the cloud has yet to report why.
    """

    state: JobState
    time: str
    started: Optional[str] = None
    reason: Optional[str] = None
    attempt: int = 1
    failed: list[Failure] = []
    unnamed: Optional[UnnamedFailure] = None
    ended_roles: tuple[str, ...] = ("worker",)
    facts: list[Fact] = []
    findings: list[Finding] = []
    is_settled: bool = True


class JobDescription(msgspec.Struct, kw_only=True):
    """A job that was submitted elsewhere, as far as the cloud knows. `run` is ours, if any."""

    name: str
    created: str
    pools: list[Pool]
    run: Optional[str] = None
    request: dict[str, Any] = {}


class CloudJob(Protocol):
    """One job in the cloud. All calls raise Unreachable, or RsctlError with findings."""

    url: str

    def status(self) -> JobStatus:
        """How it is now. One request, or a few."""

    def describe(self) -> JobDescription:
        """The kind of fact."""

    def log(self, cursor: Mapping[str, Any], pools: list[Pool], created: str) -> JobLog:
        """Its log, from a cursor on; from the beginning if that is empty."""

    def measure(self, after: Optional[str], pools: list[Pool]) -> list[MetricEvent]:
        """The cloud's own measurements after a time; names start with `cloud.`."""

    def notice(self, line: LogEvent) -> Finding | None:
        """Facts in a line of the log beyond its text, such as that the wrong plugin is loaded."""

    def facts(
        self, measured: Measured, plan: Mapping[str, Any], noticed: list[Finding]
    ) -> list[Fact]:
        """Conclusions from all facts, such as whether Reduction Server is in use.

        `plan` is the run's stored plan, `noticed` the facts that `notice` has found so far.
        """

    def cancel(self) -> None:
        """Ask it to end; one that has ended is left as it is."""


class JobService(Protocol):
    """Where jobs are created and found.

    `settled_after` are the seconds after which a create that was sent by a process which has gone,
    and whose job is not found, may be sent again: 0 if the job's name keeps it to one.
    """

    settled_after: float

    def create(self, run: str, request: dict[str, Any]) -> str:
        """Send the request, its image and secrets filled in; the URL of the job.

        Idempotent by the run's id: a job of this run that is there already is the answer, also
        after an answer was lost. Raises RsctlError, NoCapacity if machines are lacking; Unanswered
        if there may be a job all the same.
        """

    def find(self, request: Mapping[str, Any], run: str) -> str | None:
        """The URL of the job that was created for a run, or None; `request` is the plan's.

        For a submission that was killed before it got the answer.
        """

    def open(self, url: str) -> CloudJob:
        """A job by its URL; makes no call. Raises RsctlError if the URL is not one."""


def answer_of(call: Callable[[], T]) -> T:
    """The answer of a call that is not repeated later. Raises RsctlError if there is none."""
    try:
        return call()
    except Unreachable as problem:
        finding = error("network", str(problem), "check the network, then run the command again")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None


def cancel_job(job: CloudJob) -> None:
    """Ask a job to end; ignores one that no longer exists. Raises RsctlError."""
    try:
        answer_of(job.cancel)
    except RsctlError as problem:
        if NOT_FOUND not in [finding.code for finding in problem.findings]:
            raise
