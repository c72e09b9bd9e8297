"""Databases of every version of the tables, as they were written, are read and go on.

`tests/fixtures/store/N.sql` is what version N wrote. A change of the tables leaves these as they
are and adds the one of the version before it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rsctl.bench.records import Benches, Trial
from rsctl.findings import JobState
from rsctl.runs.migrations import STEPS, VERSION, migrate
from rsctl.runs.profiles import keep_profile, profiles_of
from rsctl.runs.store import Fact, Store
from rsctl.runs.stream.events import Attempt, MetricEvent, StateEvent
from rsctl.runs.stream.profiles import RankProfile
from rsctl.runs.versions import keep_versions, versions_of

from .conftest import a_run, at

DUMPS = Path(__file__).parents[1] / "fixtures" / "store"
RUN = "job-aaaaaa"


def written_by(version: int, path: Path) -> Path:
    """A database with one run, as this version wrote it."""
    with sqlite3.connect(path) as database:
        database.executescript((DUMPS / f"{version}.sql").read_text())
    return path


def tables(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """The columns of all tables, and the indices."""
    with sqlite3.connect(path) as database:
        names = database.execute("SELECT type, name FROM sqlite_master ORDER BY name").fetchall()
        return {
            f"{kind} {name}": database.execute(f"PRAGMA {kind}_info({name})").fetchall()
            for kind, name in names
            if not name.startswith("sqlite_")
        }


def test_every_earlier_version_has_a_dump() -> None:
    assert {int(path.stem) for path in DUMPS.glob("*.sql")} >= set(range(1, VERSION))


@pytest.mark.parametrize("version", range(1, VERSION))
def test_a_step_that_was_released_is_not_edited(version: int, tmp_path: Path) -> None:
    path = written_by(version, tmp_path / "old.db")
    with sqlite3.connect(tmp_path / "steps.db") as database:
        for step in STEPS[:version]:
            database.executescript(step)
    assert tables(path) == tables(tmp_path / "steps.db")


@pytest.mark.parametrize("version", range(1, VERSION))
def test_what_an_earlier_version_wrote_is_read(version: int, tmp_path: Path) -> None:
    path = written_by(version, tmp_path / "runs.db")
    store = Store(path)
    run = store.find(RUN)
    assert store.damaged == {}
    assert (run.state, run.exit_code, run.attempt) == (JobState.FAILED, 1, 2)
    assert run.first_failure is not None
    assert run.first_failure.lines == ["boom"]
    assert [replica.replica for replica in run.replicas] == ["worker-0"]
    assert [value.value for _, value in store.metrics(RUN)] == [0.5]
    assert run.facts == ([Fact("billed", "5 s", 5)] if version >= 2 else [])
    assert [attempt.reason for attempt in run.attempts] == ["preempted"] * (version >= 4)
    assert run.settings == ["workers.count=2"] * (version >= 5)
    assert run.spec == ("name: job\n" if version >= 8 else None)
    assert run.placements == []
    assert versions_of(store, RUN) == ({"worker-0": {"python": "3.11"}} if version >= 6 else {})
    benches = Benches(store).benches()
    assert [[trial.run for trial in b.trials] for b in benches] == [[RUN]] * (version >= 3)
    store.close()
    Store(tmp_path / "new.db").close()
    assert tables(path) == tables(tmp_path / "new.db")


@pytest.mark.parametrize("version", [1, VERSION - 1])
def test_nothing_of_a_forgotten_run_is_left_but_its_trial(version: int, tmp_path: Path) -> None:
    """A bench remembers that it had the run; every other table with its name is emptied."""
    store = Store(written_by(version, tmp_path / "runs.db"))
    store.forget(RUN)
    with store.transaction() as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        of_runs = {
            name: database.execute(f"SELECT count(*) FROM {name} WHERE run=?", (RUN,)).fetchone()
            for name in names
            for column in database.execute(f"PRAGMA table_info({name})").fetchall()
            if column[1] == "run" and name != "trials"
        }
    assert len(of_runs) >= 5
    assert set(of_runs.values()) == {(0,)}
    assert store.ids() == set()


def test_a_process_continues_where_a_later_version_adds_columns(store: Store) -> None:
    """As the supervisor of a run does while rsctl is upgraded."""
    store.add(a_run("job-1"))
    benches = Benches(store)
    with sqlite3.connect(store.path) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'"):
            database.execute(f"ALTER TABLE {table} ADD COLUMN later TEXT")
    store.record("job-1", StateEvent(time=at(1), state=JobState.RUNNING, replica="worker-0"))
    value = MetricEvent(time=at(2), replica="worker-0", name="loss", step=1, value=2.0)
    store.keep("job-1", [value], b"{}", [])
    store.record_attempt("job-1", Attempt(attempt=1, ended=at(3), reason="lost", failure=None))
    keep_versions(store, "job-1", "worker-0", {"torch": "2"})
    keep_profile(store, "job-1", RankProfile(tool="torch", rank=0, file="rank0.json"))
    benches.begin("bench-1", Trial(cell=0, repetition=0, run="job-1"))
    assert store.last_values("job-1") == {"loss": 2.0}
    run = store.find("job-1")
    assert ([each.replica for each in run.replicas], len(run.attempts)) == (["worker-0"], 1)
    assert versions_of(store, "job-1") == {"worker-0": {"torch": "2"}}
    assert [profile.rank for profile in profiles_of(store, "job-1")] == [0]
    assert benches.by_run() == {"job-1": "bench-1"}


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    path = written_by(VERSION - 1, tmp_path / "runs.db")
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version={VERSION + 1}")
    with pytest.raises(sqlite3.Error, match="a newer version of rsctl wrote it"):
        Store(path)
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSION + 1,)


class _Late(sqlite3.Connection):
    """A connection that locks its database just after a newer version has changed it."""

    path: Path

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "BEGIN IMMEDIATE":
            Store(self.path).close()
            with sqlite3.connect(self.path) as newer:
                newer.execute(f"PRAGMA user_version={VERSION + 1}")
        return super().execute(statement, *values)


def test_a_newer_version_that_was_faster_stays(tmp_path: Path) -> None:
    """Otherwise it would take its own step again at its next start, and fail."""
    path = written_by(VERSION - 1, tmp_path / "runs.db")
    late = sqlite3.connect(path, isolation_level=None, factory=_Late)
    late.path = path
    assert migrate(late) == VERSION + 1
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSION + 1,)


def test_a_process_at_work_opens_a_database_again_that_a_later_version_changed(
    store: Store,
) -> None:
    """As `submit` does while it watches a run, and another rsctl lists the runs."""
    with sqlite3.connect(store.path) as database:
        database.execute(f"PRAGMA user_version={VERSION + 1}")
    again = Store(store.path)
    again.add(a_run("job-1"))
    again.close()
    assert store.ids() == {"job-1"}
