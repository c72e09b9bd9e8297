"""The store of runs: what goes in comes out, from several processes at once."""

from __future__ import annotations

import gc
import math
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rsctl.findings import ExitCode, JobState, RsctlError, note
from rsctl.runs.home import home
from rsctl.runs.ids import ALPHABET, new_run_id, placeholder
from rsctl.runs.records import replica_order
from rsctl.runs.store import Fact, Replica, Store, StoreError
from rsctl.runs.stream.events import Attempt, Failure, MetricEvent, StateEvent
from rsctl.runs.stream.metrics import MetricSpec

from .conftest import a_run, at


def test_the_database_is_below_the_home_and_only_the_users(rsctl_home: Path) -> None:
    store = Store()
    assert store.path == rsctl_home / "runs.db"
    assert rsctl_home.stat().st_mode & 0o777 == 0o700
    with sqlite3.connect(store.path) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_home_is_what_rsctl_home_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RSCTL_HOME", "here")
    assert home() == tmp_path / "here"
    monkeypatch.setenv("RSCTL_HOME", "~nobody-of-this-name/x")
    assert home().name == "x"
    monkeypatch.setenv("RSCTL_HOME", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert home() == tmp_path / "rsctl"


def test_a_run_comes_back_as_it_was_added(store: Store) -> None:
    store.add(a_run("job-1"))
    assert store.get("job-1") == a_run("job-1")
    assert store.get("job-2") is None


def test_the_life_of_a_run(store: Store) -> None:
    store.add(a_run("job-1"))
    store.record("job-1", StateEvent(time=at(1), state=JobState.STARTING, reason="because"))
    store.record("job-1", StateEvent(time=at(2), state=JobState.RUNNING))
    store.record("job-1", StateEvent(time=at(3), state=JobState.RUNNING, attempt=2))
    for index in (10, 2):
        event = StateEvent(time=at(2), state=JobState.RUNNING, replica=f"worker-{index}")
        store.record("job-1", event)
    end = StateEvent(time=at(4), state=JobState.FAILED, replica="worker-2", exit_code=3)
    store.record("job-1", end)
    failure = Failure(
        replica="worker-2", time=at(4), exit_code=3, lines=["a"], causes=[note("x", "y")]
    )
    store.record_failure("job-1", failure)
    store.record("job-1", StateEvent(time=at(5), state=JobState.FAILED, exit_code=1, attempt=2))
    run = store.get("job-1")
    assert run is not None
    assert (run.state, run.exit_code, run.attempt) == (JobState.FAILED, 1, 2)
    assert (run.created, run.started, run.ended) == (at(0), at(2), at(5))
    assert (run.reason, run.first_failure) == (None, failure)
    assert run.replicas == [
        Replica(replica="worker-2", state=JobState.FAILED, since=at(4), exit_code=3),
        Replica(replica="worker-10", state=JobState.RUNNING, since=at(2)),
    ]


@pytest.mark.parametrize("state", [state for state in JobState if state.is_final])
def test_a_final_state_stays(store: Store, state: JobState) -> None:
    store.add(a_run("job-1"))
    store.record("job-1", StateEvent(time=at(1), state=state, exit_code=9))
    proves = {JobState.FAILED: JobState.EXPIRED}.get(state)
    for later in [other for other in JobState if other not in (state, proves)]:
        store.record("job-1", StateEvent(time=at(2), state=later, exit_code=1, reason="late"))
    run = store.get("job-1")
    assert run is not None
    assert (run.state, run.exit_code, run.ended, run.reason) == (state, 9, at(1), None)
    store.record("job-1", StateEvent(time=at(3), state=state, exit_code=9, reason="known by now"))
    run = store.get("job-1")
    assert run is not None
    assert (run.state, run.ended, run.reason) == (state, at(1), "known by now")


def test_a_failure_may_prove_to_have_been_a_time_limit(store: Store) -> None:
    store.add(a_run("job-1"))
    store.record("job-1", StateEvent(time=at(1), state=JobState.FAILED, exit_code=1))
    store.record("job-1", StateEvent(time=at(1), state=JobState.EXPIRED, exit_code=6, reason="1 h"))
    run = store.get("job-1")
    assert run is not None
    assert (run.state, run.exit_code, run.ended, run.reason) == (JobState.EXPIRED, 6, at(1), "1 h")


def test_metrics_come_back_in_the_order_of_their_arrival(store: Store) -> None:
    store.add(a_run("job-1"))
    values = [0.5, math.nan, math.inf, -math.inf, 5e-324, 1e308, 0.0, 3.0]
    events = [
        MetricEvent(time=at(n), replica="worker-0", name="loss", value=value, step=n or None)
        for n, value in enumerate(values)
    ]
    store.add_metrics("job-1", events[:3])
    store.add_metrics("job-2", events)
    store.add_metrics("job-1", events[3:])
    found = list(store.metrics("job-1"))
    assert list(map(str, (event for _, event in found))) == list(map(str, events))
    after = found[4][0]
    assert [event for _, event in store.metrics("job-1", after)] == events[5:]
    assert list(store.metrics("job-3")) == []


def test_the_latest_metrics_of_each_replica(store: Store) -> None:
    def value(number: float, name: str, replica: str = "worker-0") -> MetricEvent:
        return MetricEvent(time=at(1), replica=replica, name=name, value=number)

    store.add(a_run("job-1"))
    store.add(a_run("job-2"))
    store.add_metrics("job-1", [value(1, "node.x.a"), value(2, "node.x.b"), value(3, "node.y")])
    store.add_metrics("job-1", [value(4, "node.x.a"), value(5, "node.x.a", "worker-1")])
    store.add_metrics("job-2", [value(6, "node.x.a")])
    assert store.latest("job-1", "node.x.") == {
        "worker-0": {"a": 4, "b": 2},
        "worker-1": {"a": 5},
    }
    assert store.latest("job-1", "node.%.") == {}


@pytest.mark.parametrize(
    ("names", "nodes", "chosen"),
    [
        ([], True, [1, 2, 3, 4, 5, 6]),
        ([], False, [1, 2, 3, 4]),
        (["loss"], False, [1, 3]),
        (["acc", "node.x"], False, [2, 4, 5, 6]),
        (["none"], True, []),
    ],
)
def test_the_last_values_of_chosen_metrics_come_after_a_row(
    store: Store, names: list[str], nodes: bool, chosen: list[int]
) -> None:
    logged = ("loss", "acc", "loss", "acc", "node.x", "node.x")
    for run in ("job-1", "job-2"):
        events = [
            MetricEvent(time=at(n), replica="worker-0", name=name, value=n)
            for n, name in enumerate(logged, 1)
        ]
        store.add_metrics(run, events)
    for tail in (0, 1, 2, 9):
        row = store.row_before("job-1", tail, names, nodes)
        found = [event.value for _, event in store.metrics("job-1", after=row)]
        assert [value for value in found if value in chosen] == chosen[max(0, len(chosen) - tail) :]


def test_a_failed_write_of_metrics_leaves_no_transaction_open(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(a_run("job-1"))
    good = MetricEvent(time=at(1), replica="worker-0", name="loss", value=1.0)
    bad = MetricEvent(time=at(1), replica=None, name="loss", value=1.0)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="NOT NULL"):
        store.add_metrics("job-1", [good, bad])
    store.add_metrics("job-1", [good])
    store.record("job-1", StateEvent(time=at(1), state=JobState.RUNNING))
    other = Store(store.path)
    assert [event for _, event in other.metrics("job-1")] == [good]
    assert other.find("job-1").state is JobState.RUNNING


def test_runs_are_listed_the_newest_first(store: Store) -> None:
    for second, run in enumerate(["a", "b", "c"]):
        store.add(a_run(run, second))
    store.record("b", StateEvent(time=at(9), state=JobState.CANCELLED))
    assert [run.run for run in store.runs()] == ["c", "b", "a"]
    assert [run.run for run in store.runs(2)] == ["c", "b"]
    store.add(a_run("d", 9, target="compose"))
    assert [run.run for run in store.unfinished()] == ["a", "c", "d"]
    assert [run.run for run in store.unfinished("process")] == ["a", "c"]


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("job-abc", "job-abc"),
        ("job-x", "job-xyz"),
        ("other", "other-1"),
        ("@last", "other-1"),
        ("process://job-abc", "job-abc"),
        ("compose://other-1", "other-1"),
        ("jo_-abc", None),
        ("%", None),
        ("JOB-ABC", None),
        ("process://job", None),
        ("vertex://job-abc", None),
        ("", None),
        ("job-abcd", None),
    ],
)
def test_a_run_is_found(store: Store, reference: str, found: str | None) -> None:
    store.add(a_run("job-abc", 1))
    store.add(a_run("job-xyz", 2))
    store.add(a_run("other-1", 3, target="compose"))
    store.record("job-abc", StateEvent(time=at(3), state=JobState.RUNNING, replica="worker-0"))
    if found:
        assert store.find(reference) == store.get(found)
        return
    with pytest.raises(RsctlError) as caught:
        store.find(reference)
    [finding] = caught.value.findings
    assert caught.value.exit_code == ExitCode.USAGE
    assert (finding.message, finding.remedy) == (
        f"there is no run {reference!r}",
        "see `rsctl list`",
    )


def test_an_id_wins_over_a_prefix_and_several_are_named(store: Store) -> None:
    for second, run in enumerate(["job", "job-1", "job-2", "job-3", "job-4", "job-5"]):
        store.add(a_run(run, second))
    assert store.find("job").run == "job"
    with pytest.raises(RsctlError, match="'job-' matches several runs: job-5, job-4, job-3, job-2"):
        store.find("job-")


def test_an_empty_reference_is_not_the_only_run(store: Store) -> None:
    """`rsctl cancel "$RUN"` with RUN not set."""
    store.add(a_run("job-1"))
    with pytest.raises(RsctlError, match="no run ''"):
        store.find("")


def test_last_of_none(store: Store) -> None:
    with pytest.raises(RsctlError, match="there are no runs yet"):
        store.find("@last")


HAMMER = """
import sys
from pathlib import Path
from rsctl.findings import JobState
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import MetricEvent, StateEvent, now

path, name = Path(sys.argv[1]), sys.argv[2]
for n in range(20):
    store = Store(path)
    run = f"{name}-{n}"
    queued = JobState.QUEUED
    store.add(RunRecord(run=run, name="j", target="process", url=run, state=queued, created=now()))
    for i in range(5):
        store.record(run, StateEvent(time=now(), state=JobState.RUNNING, replica=f"worker-{i}"))
        value = MetricEvent(time=now(), replica="w", name="loss", value=float(i))
        store.add_metrics(run, [value] * 5)
    store.record(run, StateEvent(time=now(), state=JobState.SUCCEEDED, exit_code=0))
    store.close()
"""


def test_several_processes_write_at_once_from_the_very_first(tmp_path: Path) -> None:
    path = tmp_path / "new" / "runs.db"
    names = ["a", "b", "c", "d"]
    writers = [subprocess.Popen([sys.executable, "-c", HAMMER, str(path), name]) for name in names]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0, 0]
    store = Store(path)
    runs = store.runs()
    assert {run.run for run in runs} == {f"{name}-{n}" for name in names for n in range(20)}
    assert all(run.state is JobState.SUCCEEDED and len(run.replicas) == 5 for run in runs)
    assert all(len(list(store.metrics(run.run))) == 25 for run in runs)


def test_those_who_go_on_without_the_store_catch_an_error_of_sqlite() -> None:
    assert issubclass(StoreError, sqlite3.Error)


def test_replicas_are_ordered_workers_first_by_number() -> None:
    names = ["reducer-1", "worker-10", "worker-9", "reducer-0", "odd"]
    assert sorted(names, key=replica_order) == [
        "worker-9",
        "worker-10",
        "odd",
        "reducer-0",
        "reducer-1",
    ]


def test_run_ids_are_the_jobs_name_and_chance() -> None:
    ids = {new_run_id("job") for _ in range(100)}
    assert len(ids) == 100
    assert all(set(run.removeprefix("job-")) <= set(ALPHABET) for run in ids)
    assert placeholder("job") == "job-xxxxxx"
    assert all(len(run) == len(placeholder("job")) for run in ids)


def test_what_was_collected_is_kept_with_its_metrics(store: Store) -> None:
    store.add(a_run("job-1"))
    assert (store.progress("job-1"), store.get("job-1")) == (None, a_run("job-1"))
    loss = MetricEvent(time=at(1), replica="worker-0", name="loss", value=1.0)
    store.keep("job-1", [loss], b'{"a":1}', [Fact("billed", "5 s", 5)])
    store.keep("job-1", [loss], b'{"a":2}', [Fact("billed", "6 s", 6)])
    assert store.progress("job-1") == b'{"a":2}'
    assert len(list(store.metrics("job-1"))) == 2
    found = store.get("job-1")
    assert found is not None
    assert found.facts == [Fact("billed", "6 s", 6)]


def test_a_run_is_found_where_its_target_has_put_it(store: Store) -> None:
    store.add(a_run("job-1"))
    store.locate("job-1", "vertex://p/r/1")
    assert store.find("vertex://p/r/1").run == "job-1"


def _metric(second: int, replica: str, value: float) -> MetricEvent:
    time = f"2026-01-31T12:00:{second:02}.000000Z"
    return MetricEvent(time=time, replica=replica, name="loss", value=value)


@pytest.fixture
def logged(store: Store) -> Store:
    """A run with goal `min`: the chief ends at 3, another worker has the lowest value."""
    store.add(
        msgspec.structs.replace(a_run("job-1"), metrics_spec={"loss": MetricSpec(goal="min")})
    )
    store.add_metrics("job-1", [_metric(1, "worker-1", 0.5), _metric(2, "worker-0", 2.0)])
    store.add_metrics("job-1", [_metric(4, "worker-0", 3.0), _metric(5, "worker-1", 0.1)])
    return store


SUMMARY = {"loss": {"last": 3.0, "count": 4, "best": 2.0}}


def test_the_summary_of_a_runs_metrics(logged: Store) -> None:
    assert logged.summary("job-1") == SUMMARY
    assert logged.last_values("job-1") == {"loss": 3.0}
    assert logged.summary("none") == {}


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "DELETE FROM headlines",
        "UPDATE headlines SET kept=x'00'",
        "UPDATE headlines SET kept='text'",
        "DELETE FROM metrics WHERE run='job-0'; VACUUM",
    ],
)
def test_the_summary_is_that_of_the_values_whatever_was_kept(logged: Store, statement: str) -> None:
    """What an older version has written, has damaged, or has added since."""
    with sqlite3.connect(logged.path, isolation_level=None) as db:
        db.executescript(statement)
    assert logged.summary("job-1") == SUMMARY
    other = Store(logged.path)
    assert other.summary("job-1") == SUMMARY
    with sqlite3.connect(logged.path) as db:
        later = "2026-01-31T12:00:09.000000Z"
        row = ("job-1", later, "worker-0", "loss", None, 1.5)
        db.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", row)
    expected = {"loss": {"last": 1.5, "count": 5, "best": 1.5}}
    assert logged.summary("job-1") == other.summary("job-1") == expected
    other.add_metrics("job-1", [_metric(10, "worker-0", 1.0)])
    logged.add_metrics("job-1", [_metric(11, "worker-0", math.nan)])
    statistics = logged.summary("job-1")["loss"]
    assert math.isnan(statistics["last"])
    assert (statistics["count"], statistics["best"]) == (7, 1.0)
    logged.forget("job-1")
    assert other.summary("job-1") == {}
    other.close()


def test_many_metrics_are_not_kept_with_each_value(store: Store) -> None:
    """And the summary has them nevertheless."""
    store.add(a_run("job-1"))
    many = [msgspec.structs.replace(_metric(1, "worker-0", 1.0), name=f"m{n}") for n in range(3000)]
    store.add_metrics("job-1", many)
    for value in range(3):
        store.add_metrics("job-1", [_metric(2 + value, "worker-0", float(value))])
    assert len(store.summary("job-1")) == 3001
    assert Store(store.path).summary("job-1")["loss"]["last"] == 2.0


def test_metrics_that_the_chief_has_not_logged(logged: Store) -> None:
    other = msgspec.structs.replace(_metric(6, "worker-1", 1.0), name="f1")
    machine = msgspec.structs.replace(_metric(6, "worker-1", 1.0), name="node.cpu")
    logged.add_metrics("job-1", [other, machine])
    assert logged.without_chief("job-1") == ["f1"]
    assert logged.without_chief("none") == []
    logged.add_metrics("job-1", [msgspec.structs.replace(other, replica="worker-0")])
    assert logged.without_chief("job-1") == []


def test_damaged_values_and_specs_are_passed_over(logged: Store) -> None:
    with sqlite3.connect(logged.path) as db:
        row = ("job-1", "2026-01-31T12:00:09.000000Z", "worker-0", "loss", None, "no number")
        db.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", row)
        db.execute("UPDATE runs SET metrics_spec='['")
    figures = logged.summary("job-1")["loss"]
    assert (figures["last"], figures["count"]) == (3.0, 4)


def test_a_reader_keeps_what_it_has_folded_from_many_rows(logged: Store) -> None:
    """Of a run whose writer did not, as after an upgrade."""
    for count, is_kept in ((5000 - 4, False), (1, True)):
        rows = [("job-1", "2026-01-31T12:00:09.000000Z", "worker-0", "loss", None, 1.5)] * count
        with sqlite3.connect(logged.path) as db:
            db.execute("DELETE FROM headlines")
            db.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
        assert logged.summary("job-1")["loss"]["last"] == 1.5
        with sqlite3.connect(logged.path) as db:
            assert bool(db.execute("SELECT * FROM headlines").fetchall()) is is_kept


@pytest.mark.parametrize(
    ("reference", "message", "remedy"),
    [
        (
            "job-a",
            "'job-a' matches several runs: job-a4, job-a3, job-a2, job-a1",
            "give more characters of the ID",
        ),
        (
            "job-",
            "'job-' matches several runs: job-b1, job-a4, job-a3, job-a2, ...",
            "give more characters of the ID",
        ),
        ("job-c", "there is no run 'job-c'", "see `rsctl list`"),
        ("", "there is no run ''", "see `rsctl list`"),
    ],
)
def test_what_a_reference_that_names_no_single_run_is_answered(
    store: Store, reference: str, message: str, remedy: str
) -> None:
    for name in ("job-a1", "job-a2", "job-a3", "job-a4", "job-b1"):
        store.add(a_run(name))
    with pytest.raises(RsctlError) as caught:
        store.find(reference)
    assert caught.value.exit_code == ExitCode.USAGE
    [finding] = caught.value.findings
    assert (finding.message, finding.remedy) == (message, remedy)


def test_the_bytes_that_the_metrics_of_runs_take(store: Store) -> None:
    for run, count in (("job-1", 1), ("job-2", 3), ("job-3", 0)):
        store.add(a_run(run))
        store.add_metrics(run, [_metric(n, "worker-0", 1.0) for n in range(count)])
    all_runs = store.disk_uses()
    assert all_runs.keys() == {"job-1", "job-2"}
    assert 60 <= all_runs["job-1"] <= 120
    assert all_runs["job-2"] == 3 * all_runs["job-1"]
    assert store.disk_uses("job-2") == {"job-2": all_runs["job-2"]}
    assert store.disk_uses("job-3") == {}


def test_unfinished_runs_of_all_targets_and_of_one(store: Store) -> None:
    for run, target in (("job-1", "process"), ("job-2", "vertex"), ("job-3", "vertex")):
        store.add(a_run(run, target=target))
    store.record("job-3", StateEvent(time=at(1), state=JobState.FAILED))
    assert [run.run for run in store.unfinished()] == ["job-1", "job-2"]
    assert [run.run for run in store.unfinished("vertex")] == ["job-2"]
    assert [run.run for run in store.runs(2)] == ["job-3", "job-2"]


def test_ids_of_the_newest_runs_and_the_runs_of_ids(store: Store) -> None:
    for number, name in enumerate(("a", "b", "a"), 1):
        store.add(msgspec.structs.replace(a_run(f"job-{number}", number), name=name))
    assert store.newest_ids() == ["job-3", "job-2", "job-1"]
    assert store.newest_ids(name="a*") == ["job-3", "job-1"]
    assert store.newest_ids(since=at(2)) == ["job-3", "job-2"]
    assert [run.run for run in store.runs_of(["job-1", "job-3", "none"])] == ["job-3", "job-1"]


def test_attempts_come_back_in_their_order_with_their_failures(store: Store) -> None:
    store.add(a_run("job-1"))
    failure = Failure(replica="worker-0", time=at(3), exit_code=3)
    second = Attempt(attempt=2, ended=at(4), reason="again", failure=failure)
    first = Attempt(attempt=1, ended=at(2), reason=None, failure=None)
    for attempt in (second, first):
        store.record_attempt("job-1", attempt)
    assert store.find("job-1").attempts == [first, second]


def test_what_was_collected_counts_once(store: Store) -> None:
    store.add(a_run("job-1"))
    assert store.progress("job-1") is None
    for number in (1, 2):
        facts = [Fact("billable_seconds", f"{number} s", number)]
        store.keep("job-1", [_metric(number, "worker-0", 1.0)], b"%d" % number, facts)
    assert store.progress("job-1") == b"2"
    assert store.find("job-1").facts == [Fact("billable_seconds", "2 s", 2)]
    assert len(list(store.metrics("job-1"))) == 2
    assert [row for row, _ in store.metrics("job-1", after=1)] == [2]


def test_a_store_that_is_left_open_keeps_no_file_open(rsctl_home: Path) -> None:
    """A command that watches a run opens one at each look."""
    held = Store()

    def files() -> int:
        links = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
        return sum(link.startswith(str(rsctl_home)) for link in links)

    Store().get("t-aaaaaa")
    before = files()
    gc.disable()
    try:
        for _ in range(5):
            Store().get("t-aaaaaa")
        assert files() == before
    finally:
        gc.enable()
        held.close()
