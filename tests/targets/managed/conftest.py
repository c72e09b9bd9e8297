"""A cloud in memory: one job whose states and log lines a test hands out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import Finding, JobState, RsctlError, warning
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.store import Fact, RunRecord, Store
from rsctl.runs.stream.events import Event, LogEvent, MetricEvent
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.targets.base import Pool, replica_names
from rsctl.targets.managed.service import SERVICE, JobDescription, JobStatus, Unreachable
from rsctl.targets.managed.target import ManagedTarget
from rsctl.targets.vertex.info import INFO

URL = "vertex://p/r/7"
POOLS = [Pool(role="worker", count=2), Pool(role="reducer", count=1)]


def at(second: int) -> str:
    """A time in the form of events."""
    return f"2026-11-21T12:00:{second:02}.000000Z"


def line(second: int, replica: str | None, text: str, identity: str = "") -> LogEvent:
    """A line of the log."""
    identity = identity or f"{second}-{replica}-{text}"
    return LogEvent(at(second), replica or SERVICE, identity, "stdout", text)


class Killed(BaseException):
    """What happens to a process that is killed: nothing more."""


class FakeCloud:
    """What the cloud has; a test changes it as it goes. It counts what it is asked."""

    settled_after = 0.0

    def __init__(self) -> None:
        self.status = JobStatus(state=JobState.QUEUED, time=at(0))
        self.lines: list[LogEvent] = []
        self.measured: list[MetricEvent] = []
        self.created: dict[str, dict[str, Any]] = {}
        self.unreachable = 0
        self.refused: dict[str, RsctlError] = {}
        self.lost_by: type[BaseException] | None = None
        self.calls: list[str] = []
        self.cancelled = False
        self.log_since = ""

    def call(self, name: str) -> None:
        self.calls.append(name)
        if self.unreachable:
            self.unreachable -= 1
            raise Unreachable("the cloud gives no answer")
        if name in self.refused:
            raise self.refused[name]

    def end(self, state: JobState, **fields: Any) -> None:
        self.status = JobStatus(state=state, time=at(50), **fields)

    # JobService
    def create(self, run: str, request: dict[str, Any]) -> str:
        self.calls.append("create")
        self.created[run] = request
        if self.lost_by:
            raise self.lost_by
        return URL

    def find(self, _request: Mapping[str, Any], run: str) -> str | None:
        self.call("find")
        return URL if run in self.created else None

    def open(self, url: str) -> FakeJob:
        return FakeJob(self, url)


class FakeJob:
    """The job."""

    def __init__(self, cloud: FakeCloud, url: str) -> None:
        self.cloud, self.url = cloud, url

    def status(self) -> JobStatus:
        self.cloud.call("status")
        return self.cloud.status

    def describe(self) -> JobDescription:
        self.cloud.call("describe")
        return JobDescription(name="Their Job", created=at(0), pools=POOLS)

    def log(self, cursor: Mapping[str, Any], _pools: list[Pool], created: str) -> FakeLog:
        if self.cloud.unreachable:  # of a job that is not known yet the cloud is asked
            raise Unreachable("the cloud gives no answer")
        self.cloud.log_since = created
        return FakeLog(self.cloud, cursor.get("read", 0))

    def measure(self, after: str | None, _pools: list[Pool]) -> list[MetricEvent]:
        self.cloud.call("measure")
        return [m for m in self.cloud.measured if after is None or m.time > after]

    def notice(self, line: LogEvent) -> Finding | None:
        return warning("wrong-plugin", "the wrong plugin") if "FastSocket" in line.text else None

    def facts(
        self, measured: Mapping[str, Mapping[str, float]], _plan: Any, noticed: list[Finding]
    ) -> list[Fact]:
        moved = sum(metrics.get("received", 0.0) for metrics in measured.values())
        return [Fact("engaged", f"{moved:g} bytes, {len(noticed)} noticed", moved > 0)]

    def cancel(self) -> None:
        self.cloud.call("cancel")
        self.cloud.cancelled = True


class FakeLog:
    """Reads two lines at a time."""

    def __init__(self, cloud: FakeCloud, read: int) -> None:
        self.cloud, self.at, self.is_finished = cloud, read, False

    def read(self) -> list[LogEvent] | None:
        self.cloud.call("log")
        lines = self.cloud.lines[self.at : self.at + 2]
        self.at += len(lines)
        return lines

    def finish(self, ended: str) -> None:
        assert ended == self.cloud.status.time
        self.is_finished = True

    @property
    def is_complete(self) -> bool:
        return self.is_finished and self.at == len(self.cloud.lines)

    def cursor(self) -> dict[str, Any]:
        return {"read": self.at}


class FakeTarget(ManagedTarget):
    """A target on the fake cloud."""

    info = INFO

    def __init__(self, cloud: FakeCloud) -> None:
        super().__init__()
        self.cloud = cloud

    def service(self, _endpoints: Endpoints) -> FakeCloud:
        return self.cloud


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RSCTL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RSCTL_CLOUD_PACE", "0")


@pytest.fixture
def cloud() -> FakeCloud:
    return FakeCloud()


@pytest.fixture
def target(cloud: FakeCloud) -> FakeTarget:
    return FakeTarget(cloud)


@pytest.fixture
def run() -> str:
    """A run that was submitted: in the store, with its folder, its job's URL known."""
    plan = {"pools": msgspec.to_builtins(POOLS), "request": {}}
    RunFolder("t-aaaaaa").create(
        RunDescription(run="t-aaaaaa", target="vertex", request={}, replicas=replica_names(POOLS))
    )
    store = Store()
    store.add(
        RunRecord(
            run="t-aaaaaa",
            name="t",
            target="vertex",
            url=URL,
            state=JobState.QUEUED,
            created=at(0),
            plan=plan,
            metrics_spec={"loss": MetricSpec(regex="loss=([0-9.]+)", goal="min", unit=None)},
        )
    )
    store.close()
    return "t-aaaaaa"


def followed(target: FakeTarget, run: str, **since: int) -> list[Event]:
    """All events of a run that is over or ends by itself."""
    return [event for batch in target.events(run, since, follow=True) for event in batch]


def reported(events: list[Event]) -> list[str]:
    """Events in short."""
    words = []
    for event in events:
        fields = msgspec.to_builtins(event)
        who = fields.get("replica") or "job"
        if isinstance(event, LogEvent):
            words.append(f"{event.time[17:19]} {who}: {event.text}")
        elif fields["type"] == "state":
            why = f" ({event.reason})" if event.reason else ""
            words.append(f"{who} {event.state.value}{why}")
        else:
            words.append(f"{who} finding {fields['finding']['code']}")
    return words


def stored(run: str) -> RunRecord:
    """The run as the store has it."""
    found = Store().get(run)
    assert found is not None
    return found
