"""The contract of a cloud's job service: the part that differs from cloud to cloud.

`target.ManagedTarget` does the rest: it keeps the log and the states in the run's folder and the
metrics in the store, and ensures that only one process asks the cloud about a run.
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
"""By replica, the last value of each metric whose name begins with `cloud.`, by the rest of the
name.
"""


NOT_FOUND = "not-found"
"""The code of the finding that the job does not exist; it ends a run that had a job."""


CHECK_CONTACT = "check the network and the cloud's status page"
"""The remedy for a cloud that gives no answer, or answers with server errors."""


class Unreachable(Exception):
    """The cloud gave no answer, or asks the client to retry later: the job itself has no error.

    The text names the service and the problem. The collector tries again later, and reports it.
    """


class NoCapacity(RsctlError):
    """A job was not created: its machines are not available there, or not within the quota."""


SERVICE = ""
"""The `replica` of a line that the cloud's service itself has written into a job's log."""


class JobLog(Protocol):
    """Reads a job's log to its end, every line once.

    It decides itself when a request is due (otherwise `read` returns None immediately), reads
    recent lines again to find late ones, and leaves out the lines that it has already returned.
    """

    def read(self) -> list[LogEvent] | None:
        """The next lines in order of time, also of SERVICE; None if it is not time to ask again.

        At most one request. Raises Unreachable, or RsctlError for a permanent error.
        """

    def finish(self, ended: str) -> None:
        """The job ended at this time: read to the end, and until no late lines are expected.

        The wait counts from `ended`, so that the log of an old job is complete immediately.
        """

    @property
    def is_complete(self) -> bool:
        """Whether all has been read, after `finish`."""

    def cursor(self) -> dict[str, Any]:
        """The position where another reader of this log continues, as JSON; its size is bounded."""


class JobStatus(msgspec.Struct, kw_only=True):
    """The status of a job by the cloud.

    `at` is the present by the cloud's clock, where the cloud tells it: this machine's may be wrong.
    `time` is the time when it entered the state, `started` when it began to run or to be billed, if
    it has. `has_machines` is true for a job that is starting on machines that it already has, or
    that are reserved for it.
    `reason` is a text for people, such as why it is still queued, `restarted` one that says why an
    attempt ends that another one follows, where that is always the same, and `is_interrupted` is
    whether the cloud has ended that attempt, and may have signalled its ranks. `failed` are the
    replicas that failed by the cloud's report, not the ones that were stopped as a result; their
    `lines` are the report on each, their `causes` come from other sources. `unnamed` is a failed
    replica that the cloud does not name: its log identifies it. The chief of a succeeded job, and
    all replicas of the `ended_roles`, have ended by themselves. `findings` are reported once each,
    such as a quota that is full. `is_settled` is false for an ended job until the cloud has
    reported the reason.
    """

    state: JobState
    time: str
    at: Optional[str] = None
    started: Optional[str] = None
    has_machines: bool = False
    reason: Optional[str] = None
    attempt: int = 1
    restarted: Optional[str] = None
    is_interrupted: bool = False
    failed: list[Failure] = []
    unnamed: Optional[UnnamedFailure] = None
    ended_roles: tuple[str, ...] = ("worker",)
    facts: list[Fact] = []
    findings: list[Finding] = []
    is_settled: bool = True


class JobDescription(msgspec.Struct, kw_only=True):
    """A job that was submitted elsewhere, by the cloud's data. `run` is its run id, if any."""

    name: str
    created: str
    pools: list[Pool]
    run: Optional[str] = None
    request: dict[str, Any] = {}


class CloudJob(Protocol):
    """One job in the cloud. All calls raise Unreachable, or RsctlError with findings."""

    url: str

    def status(self) -> JobStatus:
        """The present status. One request, or a few."""

    def describe(self) -> JobDescription:
        """The job as the cloud describes it."""

    def log(self, cursor: Mapping[str, Any], pools: list[Pool], created: str) -> JobLog:
        """Its log, from a cursor on; from the beginning if the cursor is empty."""

    def measure(self, after: Optional[str], pools: list[Pool]) -> list[MetricEvent]:
        """The cloud's own measurements after a time; names start with `cloud.`."""

    def notice(self, line: LogEvent) -> Finding | None:
        """Facts that a line of the log shows, such as that the wrong plugin is loaded."""

    def facts(
        self, measured: Measured, plan: Mapping[str, Any], noticed: list[Finding]
    ) -> list[Fact]:
        """Conclusions from all facts, such as whether Reduction Server is in use.

        `plan` is the run's stored plan, `noticed` the facts that `notice` has found so far.
        """

    def cancel(self) -> None:
        """Ask it to end; does not change a job that has ended."""


class JobService(Protocol):
    """Creates and finds jobs.

    `settled_after` are the seconds after which the create request of an ended process may be sent
    again if its job is not found: 0 if the job's name prevents a second job.
    """

    settled_after: float

    def create(self, run: str, request: dict[str, Any]) -> str:
        """Send the request, its image and secrets filled in; the URL of the job.

        Idempotent by the run's id: returns the job of this run if it already exists, also after a
        lost answer. Raises RsctlError; NoCapacity if machines are not available; Unanswered if a
        job may exist.
        """

    def find(self, request: Mapping[str, Any], run: str) -> str | None:
        """The URL of the job that was created for a run, or None; `request` is the plan's.

        For a submission that was killed before the answer arrived.
        """

    def open(self, url: str) -> CloudJob:
        """A job by its URL; makes no call. Raises RsctlError if the URL is not one."""


def answer_of(call: Callable[[], T]) -> T:
    """The answer of a call that is not repeated. Raises RsctlError if there is no answer."""
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
