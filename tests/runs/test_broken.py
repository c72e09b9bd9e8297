"""A store that cannot be used, from the beginning or later: exit code 3 and words, no traceback."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rsctl.api.prune.uses import texts_of_run
from rsctl.bench.decision import decision_about
from rsctl.bench.folder import BenchFolder
from rsctl.bench.rate import SubmissionRate
from rsctl.findings import ExitCode, JobState, error, warning
from rsctl.runs import database
from rsctl.runs.final_state import final_state, with_final_state
from rsctl.runs.final_state import write as write_final_state
from rsctl.runs.findings import findings_of
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.reader import StateReader
from rsctl.runs.recorder import Recorder
from rsctl.runs.store import Store, StoreError
from rsctl.runs.store_errors import DiskFull
from rsctl.runs.stream.events import FindingEvent, MetricEvent, StateEvent

from .conftest import a_run, at


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "runs.db", tmp_path / "file" / "below" / "runs.db"):
        with pytest.raises(StoreError) as caught:
            Store(path)
        assert caught.value.exit_code == ExitCode.ENVIRONMENT
        assert f"cannot use {path}" in str(caught.value)


def test_a_database_of_a_newer_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(tmp_path / "runs.db").close()
    monkeypatch.setattr(database, "used", set())  # as in another process
    with sqlite3.connect(tmp_path / "runs.db") as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(StoreError, match="a newer version of rsctl wrote it"):
        Store(tmp_path / "runs.db")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_bytes(b"hello" * 1000)
    with pytest.raises(StoreError, match="file is not a database") as caught:
        Store(tmp_path / "runs.db")
    [finding] = caught.value.findings
    assert finding.remedy == "move it to another place, or set RSCTL_HOME to another folder"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE runs SET state='exploded' WHERE id='job-1'",
        "UPDATE runs SET plan='{' WHERE id='job-1'",
        "UPDATE runs SET plan=x'ff' WHERE id='job-1'",
        "UPDATE runs SET first_failure='{}' WHERE id='job-1'",
        "UPDATE runs SET metrics_spec='[]' WHERE id='job-1'",
        "UPDATE replicas SET state=''",
        "INSERT INTO collected VALUES ('job-1', '{}', '[')",
        "UPDATE runs SET created='yesterday' WHERE id='job-1'",
        "UPDATE runs SET ended='2026-02-31T12:00:00.000000Z' WHERE id='job-1'",
        "UPDATE runs SET attempt='two' WHERE id='job-1'",
        "UPDATE runs SET plan='[]' WHERE id='job-1'",
        "UPDATE runs SET spec=x'00ff' WHERE id='job-1'",
        "UPDATE runs SET state=CAST(x'ff' AS TEXT) WHERE id='job-1'",
        "UPDATE replicas SET since='x'",
        "INSERT INTO attempts VALUES ('job-1', 'x', 'y', NULL, NULL)",
        "INSERT INTO attempts VALUES ('job-1', 2, 'y', NULL, NULL)",
    ],
)
def test_one_damaged_run_does_not_hide_the_others(store: Store, damage: str) -> None:
    for run in ("job-1", "job-2"):
        store.add(a_run(run))
    store.record("job-1", StateEvent(time=at(1), state=JobState.RUNNING, replica="worker-0"))
    with sqlite3.connect(store.path) as database:
        database.execute(damage)
    assert [run.run for run in store.runs()] == ["job-2"]
    assert [run.run for run in store.unfinished()] == ["job-2"]
    assert store.find("job-2").run == "job-2"
    [finding] = store.damage()
    assert finding.message.startswith("cannot read job-1: ")
    assert (finding.severity, finding.remedy) == (
        "warning",
        "remove its records: rsctl forget job-1",
    )
    for use in (lambda: store.get("job-1"), lambda: store.find("job-1")):
        with pytest.raises(StoreError, match="cannot read job-1: ") as caught:
            use()
        assert caught.value.exit_code == ExitCode.ENVIRONMENT
    store.forget(store.identify("job-1"))
    assert Store(store.path).damage() == []
    assert [run.run for run in Store(store.path).runs()] == ["job-2"]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE runs SET name=CAST(x'61ff' AS TEXT) WHERE id='job-1'",
        "UPDATE replicas SET reason=CAST(x'61ff' AS TEXT)",
        "INSERT INTO metrics VALUES ('job-1', 'x', 'worker-0', CAST(x'61ff' AS TEXT), 1, 1.0)",
        "INSERT INTO metrics VALUES ('job-1', 'x', 'worker-0', 'lr', 1, 'abc')",
        "INSERT INTO metrics VALUES ('job-1', 'x', 'worker-0', 'lr', 'x', 2.0)",
        "INSERT INTO metrics VALUES ('job-1', 'x', 'worker-0', 'lr', 1, x'ff')",
    ],
)
def test_a_text_or_a_number_that_is_damaged_hides_nothing(store: Store, damage: str) -> None:
    for run in ("job-1", "job-2"):
        store.add(a_run(run))
    store.record("job-1", StateEvent(time=at(1), state=JobState.RUNNING, replica="worker-0"))
    with sqlite3.connect(store.path) as database:
        database.execute(damage)
    assert [run.run for run in store.runs()] == ["job-2", "job-1"]
    assert store.damage() == []
    found = [event for _, event in store.metrics("job-1")]
    assert all(isinstance(event.value, float) for event in found)
    assert set(store.last_values("job-1")) <= {"a\\xff", "lr"}
    [run] = [run for run in store.runs() if run.run == "job-1"]
    assert {run.name, *(replica.reason for replica in run.replicas)} <= {
        *(None, "job", "a\\xff", a_run("job-1").name)
    }


@pytest.mark.parametrize("damage", ["DROP TABLE runs", "DROP TABLE replicas"])
def test_a_database_that_is_damaged_later(store: Store, damage: str) -> None:
    store.add(a_run("job-1"))
    store.record("job-1", StateEvent(time=at(1), state=JobState.RUNNING, replica="worker-0"))
    with sqlite3.connect(store.path) as database:
        database.execute(damage)
    for use in (store.runs, store.unfinished, lambda: store.get("job-1"), lambda: store.find("j")):
        with pytest.raises(StoreError, match=r"cannot use .*runs\.db") as caught:
            use()
        assert caught.value.exit_code == ExitCode.ENVIRONMENT


def test_a_file_that_is_overwritten_later(store: Store) -> None:
    store.add(a_run("job-1"))
    store.close()
    with store.path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 20_000)
    with pytest.raises(StoreError, match="malformed"):
        Store(store.path).runs()


def test_a_schema_with_bytes_that_are_not_text(store: Store) -> None:
    """Python cannot decode SQLite's error about it."""
    store.add(a_run("job-1"))
    store.close()
    content = store.path.read_bytes().replace(b"CREATE TABLE metrics", b"CREATE TABLE (etrics")
    assert b"tablemetricsmetrics" in content
    store.path.write_bytes(content.replace(b"tablemetricsmetrics", b"table\xffetricsmetrics"))
    with pytest.raises(StoreError, match=r"cannot use .*runs\.db: it is damaged") as caught:
        Store(store.path).runs()
    assert caught.value.exit_code == ExitCode.ENVIRONMENT


def test_a_database_that_another_process_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    store = Store(tmp_path / "runs.db")
    holder = sqlite3.connect(store.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert store.runs() == []
    for write in (
        lambda: store.add(a_run("job-1")),
        lambda: store.record("job-1", StateEvent(time=at(1), state=JobState.RUNNING)),
        lambda: store.add_metrics("job-1", []),
    ):
        with pytest.raises(StoreError, match="database is locked") as caught:
            write()
    assert caught.value.findings[0].remedy == (
        "end the process that holds the lock, or set RSCTL_HOME to another folder"
    )
    holder.execute("ROLLBACK")
    store.add(a_run("job-1"))
    assert store.find("job-1").run == "job-1"


@pytest.mark.parametrize(
    "damage", [b"\xff", b"{", b'{"type":"state","time":"\xff"}', b"[" * 100_000]
)
def test_a_damaged_file_in_the_folder_of_a_run_is_passed_over(store: Store, damage: bytes) -> None:
    """Bytes that are not UTF-8, and deep nesting, are not errors of msgspec."""
    store.add(a_run("job-1"))
    folder = RunFolder("job-1")
    folder.path.mkdir(parents=True)
    for name in ("submission.json", "outcome.json", "rehearsal.json"):
        (folder.path / name).write_bytes(damage)
    told = warning("x", "y")
    lines = [FindingEvent(time=at(1), finding=told), FindingEvent(time=at(2), finding=told)]
    first, last = map(msgspec.json.encode, lines)
    mark = b'{"type":"finding",' + damage
    folder.states.write_bytes(b"\n".join([first, damage, mark, last, b""]))
    assert final_state("job-1") is None
    assert folder.replicas() == []
    assert findings_of("job-1") == [told]
    assert len(StateReader(folder.states).read()) == 2
    assert list(texts_of_run(a_run("job-1"))) == ["job-1"]
    BenchFolder("bench-1").path.mkdir(parents=True)
    BenchFolder("bench-1").decision.write_bytes(damage)
    assert decision_about("bench-1") is None
    rates = store.path.with_name("rates.json")
    rates.write_bytes(damage)
    assert SubmissionRate(rates, 1, 1.0).take("job-1")


@pytest.mark.parametrize("name", ["submission.json", "states.log", "outcome.json", "worker-0/log"])
def test_a_pipe_in_the_folder_of_a_run_is_not_waited_for(store: Store, name: str) -> None:
    store.add(a_run("job-1"))
    folder = RunFolder("job-1")
    (folder.path / name).parent.mkdir(parents=True)
    os.mkfifo(folder.path / name)
    assert final_state("job-1") is None
    assert findings_of("job-1") == []
    assert folder.replicas() == (["worker-0"] if name == "worker-0/log" else [])
    for command in ("list", "prune"):
        limits = ["--keep", "0", "--dry-run"] if command == "prune" else []
        done = subprocess.run(
            [sys.executable, "-m", "rsctl", command, *limits],
            env={**os.environ, "RSCTL_HOME": str(store.path.parent)},
            timeout=60,
            capture_output=True,
        )
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


@pytest.mark.parametrize("name", ["outcome.json", "emulator.json", "supervisor.lock"])
def test_a_pipe_stops_nothing_that_brings_a_run_up_to_date(store: Store, name: str) -> None:
    """Of a run that has started and whose supervisor was killed."""
    folder = RunFolder("job-1")
    folder.create(RunDescription(run="job-1", target="process", request={}, replicas=["worker-0"]))
    store.add(a_run("job-1"))
    store.record("job-1", StateEvent(time=at(1), state=JobState.RUNNING))
    store.record("job-1", StateEvent(time=at(1), state=JobState.RUNNING, replica="worker-0"))
    os.mkfifo(folder.path / name)
    for command in ("list", "prune --keep 0 --dry-run", "status job-1", "cancel job-1"):
        done = subprocess.run(
            [sys.executable, "-m", "rsctl", *command.split()],
            env={**os.environ, "RSCTL_HOME": str(store.path.parent)},
            timeout=60,
            capture_output=True,
        )
        assert (done.returncode, b"broke down" in done.stderr) == (0, False), done


def test_the_end_of_a_run_is_known_with_those_of_its_replicas(store: Store) -> None:
    """Though the store had no space for them."""
    store.add(a_run("job-1"))
    RunFolder("job-1").path.mkdir(parents=True)
    for replica in ("worker-0", "worker-1"):
        store.record("job-1", StateEvent(time=at(1), state=JobState.RUNNING, replica=replica))
    ended = [
        StateEvent(time=at(3), state=JobState.SUCCEEDED, replica="worker-0", exit_code=0),
        StateEvent(time=at(4), state=JobState.FAILED, replica="worker-1", exit_code=2),
    ]
    end = StateEvent(time=at(5), state=JobState.FAILED, exit_code=1, reason="worker-1")
    write_final_state("job-1", end, ended)
    assert final_state("job-1") == end
    known = with_final_state(store.find("job-1"))
    assert (known.state, known.exit_code, known.ended) == (JobState.FAILED, 1, at(5))
    states = [(replica.replica, replica.state, replica.exit_code) for replica in known.replicas]
    assert states == [("worker-0", JobState.SUCCEEDED, 0), ("worker-1", JobState.FAILED, 2)]
    store.record("job-1", end)  # of the job alone
    assert with_final_state(store.find("job-1")).replicas == known.replicas


def test_what_found_no_space_is_recorded_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(a_run("job-1"))
    RunFolder("job-1").path.mkdir(parents=True)
    recorder = Recorder(RunFolder("job-1"), store)

    def refuse(*_: object) -> None:
        raise DiskFull(ExitCode.ENVIRONMENT, error("store", "its disk is full"))

    values = [
        MetricEvent(time=at(2), replica="worker-0", name="loss", step=n, value=float(n))
        for n in range(3)
    ]
    with monkeypatch.context() as full:
        full.setattr(Store, "record", refuse)
        full.setattr(Store, "add_metrics", refuse)
        recorder.state(JobState.SUCCEEDED, "worker-0", exit_code=0)
        recorder.metrics(values)
        recorder.flush()
    recorder.state(JobState.SUCCEEDED, "worker-1", exit_code=0)
    recorder.metrics_ended({}, is_success=True)
    recorder.close()
    replicas = store.find("job-1").replicas
    assert [replica.state for replica in replicas] == [JobState.SUCCEEDED] * 2
    assert [event for _, event in store.metrics("job-1")] == values
    assert findings_of("job-1") == []


def test_a_line_of_states_that_was_cut_short_damages_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(a_run("job-1"))
    RunFolder("job-1").path.mkdir(parents=True)
    recorder = Recorder(RunFolder("job-1"), store)
    real, calls = os.write, []

    def write_half(file: int, data: bytes) -> int:
        calls.append(file)
        if len(calls) == 1:
            return real(file, data[: len(data) // 2])
        if len(calls) in (2, 3, 4):
            raise OSError(errno.EFBIG, "File too large")
        return real(file, data)

    monkeypatch.setattr("rsctl.runs.recorder.os.write", write_half)
    recorder.state(JobState.STARTING)
    recorder.state(JobState.RUNNING)
    recorder.close()
    events = StateReader(RunFolder("job-1").states).read()
    assert [event.state for event in events if isinstance(event, StateEvent)] == [JobState.RUNNING]
