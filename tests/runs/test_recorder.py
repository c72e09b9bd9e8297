"""What is recorded of a run while it goes on, and what becomes of it without space."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.findings import ExitCode, Finding, JobState, error
from rsctl.runs import recorder as module
from rsctl.runs.final_state import final_state
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.recorder import Recorder
from rsctl.runs.store import Store
from rsctl.runs.store_errors import DiskFull
from rsctl.runs.stream.events import Attempt, Failure, MetricEvent
from rsctl.runs.stream.metrics import MetricSpec

from .conftest import a_run, at


@pytest.fixture
def folder(store: Store) -> RunFolder:
    store.add(a_run("job-1"))
    folder = RunFolder("job-1")
    replicas = ["worker-0", "worker-1"]
    folder.create(RunDescription(run="job-1", target="process", request={}, replicas=replicas))
    return folder


@pytest.fixture
def recorder(folder: RunFolder, store: Store) -> Iterator[Recorder]:
    recorder = Recorder(folder, store)
    yield recorder
    recorder.close()


def values(count: int, name: str = "loss", replica: str = "worker-0") -> list[MetricEvent]:
    return [
        MetricEvent(time=at(2), replica=replica, name=name, step=n, value=float(n))
        for n in range(count)
    ]


def stored(store: Store) -> list[MetricEvent]:
    return [event for _, event in store.metrics("job-1")]


def lines(folder: RunFolder) -> list[dict[str, Any]]:
    """What `states.log` has, each line whole."""
    return [msgspec.json.decode(line) for line in folder.states.read_bytes().splitlines()]


def findings(folder: RunFolder) -> list[Finding]:
    return [
        msgspec.convert(line["finding"], Finding) for line in lines(folder) if "finding" in line
    ]


def refuse(*_: object) -> None:
    raise DiskFull(ExitCode.ENVIRONMENT, error("store", "its disk is full", "free disk space"))


def test_states_are_in_the_log_the_store_and_the_file_of_the_end(
    recorder: Recorder, folder: RunFolder, store: Store
) -> None:
    recorder.state(JobState.RUNNING, time=at(1))
    recorder.attempt = 2
    recorder.state(JobState.FAILED, "worker-1", 3, "it crashed", at(2))
    recorder.state(JobState.FAILED, exit_code=3, time=at(3))
    run = store.find("job-1")
    assert (run.state, run.started, run.ended, run.exit_code) == (JobState.FAILED, at(1), at(3), 3)
    [replica] = run.replicas
    assert (replica.replica, replica.since, replica.reason) == ("worker-1", at(2), "it crashed")
    assert [(line["time"], line["state"], line["attempt"]) for line in lines(folder)] == [
        (at(1), "running", 1),
        (at(2), "failed", 2),
        (at(3), "failed", 2),
    ]
    ended = final_state("job-1")
    assert ended is not None
    assert (ended.state, ended.exit_code, ended.time) == (JobState.FAILED, 3, at(3))


def test_the_first_failure_the_attempts_and_the_versions(recorder: Recorder, store: Store) -> None:
    failure = Failure(replica="worker-1", time=at(1), exit_code=3)
    recorder.failure(failure)
    for reason in ("once", "again"):
        recorder.attempt_ended(Attempt(attempt=1, ended=at(2), reason=reason, failure=failure))
    recorder.attempt_ended(Attempt(attempt=2, ended=at(3), reason=None, failure=None))
    run = store.find("job-1")
    assert run.first_failure == failure
    assert run.attempts == [
        Attempt(attempt=1, ended=at(2), reason="again", failure=failure),
        Attempt(attempt=2, ended=at(3), reason=None, failure=None),
    ]


def test_metrics_wait_for_a_second_or_for_many(
    recorder: Recorder, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [module.monotonic()]
    monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    recorder.flush()
    recorder.metrics(values(1999))
    recorder.flush_if_due()
    assert stored(store) == []
    recorder.metrics(values(1))
    assert len(stored(store)) == 2000
    recorder.metrics(values(2))
    clock[0] += 1.0
    recorder.flush_if_due()
    assert len(stored(store)) == 2000
    clock[0] += 0.01
    recorder.flush_if_due()
    assert len(stored(store)) == 2002


def test_what_is_wrong_with_metrics_is_reported_once(
    recorder: Recorder, folder: RunFolder, store: Store
) -> None:
    metrics = {"loss": MetricSpec("loss=(.*)"), "f1": MetricSpec("f1=(.*)")}
    recorder.metrics(values(3))
    recorder.metrics_ended(metrics, is_success=True)
    assert len(stored(store)) == 3
    [finding] = findings(folder)
    assert "f1" in (finding.path or finding.message)
    recorder.metrics_ended(metrics, is_success=True)
    assert len(findings(folder)) == 1  # it was reported before


def test_of_a_store_that_cannot_be_read_nothing_is_said(
    recorder: Recorder, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Store, "latest", fail)
    recorder.metrics_ended({"f1": MetricSpec("f1=(.*)")}, is_success=True)
    assert findings(folder) == []


def test_without_space_the_last_value_of_each_series_is_kept_and_the_loss_told(
    recorder: Recorder, folder: RunFolder, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for a few values only."""
    real = Store.add_metrics

    def few(self: Store, run: str, metrics: list[MetricEvent]) -> None:
        if len(metrics) > 3:
            refuse()
        real(self, run, metrics)

    monkeypatch.setattr(Store, "add_metrics", few)
    series = [*values(5), *values(4, "loss", "worker-1"), *values(2, "accuracy")]
    recorder.metrics(series)
    recorder.metrics_ended({}, is_success=False)
    assert stored(store) == [series[4], series[8], series[10]]
    [finding] = findings(folder)
    assert (finding.code, finding.severity) == ("metrics-lost", "warning")
    assert finding.message == "8 values of metrics are not stored: its disk is full"


def test_without_any_space_all_values_are_lost_and_that_is_told(
    recorder: Recorder, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(Store, "add_metrics", refuse)
        full.setattr(module, "_MOST_WAITING", 4)
        recorder.metrics(values(6))
        recorder.flush()
        recorder.metrics(values(3))
        recorder.metrics_ended({}, is_success=True)
    [finding] = findings(folder)
    assert finding.message == (
        "9 values of metrics are not stored: its disk is full; the last values shown may differ "
        "from the job's last values"
    )


def test_a_store_without_space_is_not_tried_with_each_batch(
    recorder: Recorder, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def count(*_: object) -> None:
        tries.append(1)
        refuse()

    with monkeypatch.context() as full:
        full.setattr(Store, "add_metrics", count)
        recorder.metrics(values(2000))
        tried = len(tries)
        for _ in range(5):
            recorder.metrics(values(2000))
        assert len(tries) == tried
    recorder.flush()
    assert len(stored(store)) == 12000


def test_a_megabyte_is_in_reserve_until_it_is_needed(
    folder: RunFolder, store: Store, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    reserve = folder.path / "reserve"
    recorder = Recorder(folder, store)
    assert reserve.stat().st_size == 1 << 20
    recorder.state(JobState.RUNNING)
    assert reserve.exists()
    real = Store.record

    def full(*arguments: Any) -> None:
        if reserve.exists():
            refuse()
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "record", full)
        recorder.state(JobState.SUCCEEDED)
    assert store.find("job-1").state is JobState.SUCCEEDED
    assert not reserve.exists()
    assert capfd.readouterr().err.count("its disk is full") == 1
    recorder.close()
    other = Recorder(folder, store)
    other.close()
    assert not reserve.exists()


def test_a_disk_that_becomes_read_only_ends_no_job(
    recorder: Recorder, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reserve cannot be removed from such a disk either."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as read_only:
        for owner, name in ((Path, "unlink"), (os, "write"), (Store, "record")):
            read_only.setattr(owner, name, fail)
        recorder.state(JobState.RUNNING)
        recorder.disk_full()
    recorder.state(JobState.SUCCEEDED)
    assert [line["state"] for line in lines(folder)] == ["succeeded"]


@pytest.mark.parametrize("is_limited", [False, True])
def test_logs_that_are_cut_for_want_of_space_are_told(
    recorder: Recorder, folder: RunFolder, monkeypatch: pytest.MonkeyPatch, is_limited: bool
) -> None:
    limit = 1 << 20 if is_limited else resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    recorder.disk_full()
    assert not (folder.path / "reserve").exists()
    [finding] = findings(folder)
    cause = ", or a file has reached this process's limit of file sizes" if is_limited else ""
    assert finding.message == (
        f"the disk of {folder.path} is full{cause}: logs are incomplete from here on, "
        "the job continues"
    )
    remedy = (
        "raise the limit, `ulimit -f unlimited`, or free disk space"
        if is_limited
        else "free disk space, or set RSCTL_HOME to a larger disk"
    )
    assert (finding.code, finding.severity, finding.remedy) == ("disk-full", "warning", remedy)
    recorder.disk_full()  # no reserve is left
