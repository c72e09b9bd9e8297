"""Which runs, benches, folders and buckets go, which stay and why."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.api.prune import removal
from rsctl.api.prune.items import Item, Kept, PruneLimits
from rsctl.api.prune.leftovers import bucket_items, changed, folder_items, last_change
from rsctl.api.prune.prune import Prune
from rsctl.api.prune.removal import bucket_path, one_at_a_time, remove
from rsctl.api.prune.selection import Selection, has_ended
from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.findings import ExitCode, JobState, RsctlError
from rsctl.job.tracking import PlannedTracker, TrackingPlan
from rsctl.results.tracking.cursor import Cursor, CursorFile, make_tracking_folder
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.home import home, run_directory
from rsctl.runs.locks import try_lock
from rsctl.runs.store import RunRecord, Store, StoreError
from rsctl.runs.stream.events import StateEvent

BUSY = "it is in use: a process reads its log, or its emulator is running"
DAY = 86400.0


def ago(days: float) -> str:
    moment = datetime.now(timezone.utc) - timedelta(days=days)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.close()


Add = Callable[..., str]


@pytest.fixture
def add(store: Store) -> Add:
    """Adds a run with a folder, of which the state was entered so many days ago."""

    def adder(
        name: str, state: str = "succeeded", days: float = 10, *files: str, **more: Any
    ) -> str:
        how = {"target": "process", "url": f"process://{name}", "created": ago(days)}
        store.add(RunRecord(run=name, name="j", state=JobState.QUEUED, **how, **more))
        store.record(name, StateEvent(time=ago(days), state=JobState(state)))
        description = RunDescription(run=name, target="process", request={}, replicas=["worker-0"])
        RunFolder(name).create(description)
        for file in files:
            path = run_directory(name) / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(20_000))
        return name

    return adder


def bench(
    store: Store, name: str, *runs: str, state: str = "succeeded", days: float = 10, **more: Any
) -> BenchRecord:
    ended = ago(days) if JobState(state).is_final else None
    benches = Benches(store)
    benches.claim(
        BenchRecord(
            **{"bench": name, "name": "b", "target": "process", "definition": name, "cells": [{}]},
            **{"created": ago(days), "ended": ended, "state": JobState(state), **more},
        )
    )
    for number, run in enumerate(runs):
        benches.begin(name, Trial(cell=0, repetition=number, run=run))
    BenchFolder(name).path.mkdir(parents=True)
    return benches.find(name)


def limits(days: float = 7, newest: int = 0, has_results: bool = False) -> PruneLimits:
    return PruneLimits(days * DAY, newest, has_results)


def names(selection: Selection) -> list[str]:
    return [item.name for item in selection.items]


def test_what_ended_long_enough_ago_goes(store: Store, add: Add) -> None:
    add("old-1")
    add("young-1", "succeeded", 6.9)
    add("failed-1", "failed", 7.1)
    add("going-1", "running", 99)
    selection = Selection(store, limits())
    assert names(selection) == ["failed-1", "old-1"]
    assert [run.run for run in selection.kept_runs] == ["going-1", "young-1"]
    assert selection.kept == []
    [failed, old] = selection.items
    assert (failed.kind, failed.state, old.state) == ("run", JobState.FAILED, JobState.SUCCEEDED)
    assert old.ended == store.find("old-1").ended
    assert not PruneLimits(0, 0).is_past(None)


def test_the_newest_stay_be_they_old_or_not(store: Store, add: Add) -> None:
    for number in range(4):
        add(f"job-{number}")
    assert names(Selection(store, limits(newest=3))) == ["job-0"]
    assert names(Selection(store, limits(newest=4))) == []


def test_the_size_of_a_run_has_its_folder_and_its_metrics(store: Store, add: Add) -> None:
    add("job-1", "succeeded", 10, "worker-0/log", "outputs/model.pt")
    [small] = Selection(store, limits()).items
    [large] = Selection(store, limits(has_results=True)).items
    assert 20_000 <= small.size < 40_000
    assert large.size >= 40_000
    assert [item.size for item in Selection(store, limits()).items] == [small.size]


def test_a_run_in_use_stays(store: Store, add: Add) -> None:
    add("job-1")
    lock = RunFolder("job-1").lock()
    assert Selection(store, limits()).kept == [Kept("job-1", BUSY)]
    assert not has_ended(store, "job-1")
    os.close(lock)
    emulator = try_lock(run_directory("job-1") / "emulator.lock")
    assert emulator is not None
    os.pwrite(emulator, str(os.getpid()).encode(), 0)
    selection = Selection(store, limits())
    assert (names(selection), selection.kept) == ([], [Kept("job-1", BUSY)])
    os.close(emulator)
    assert names(Selection(store, limits())) == ["job-1"]
    assert has_ended(store, "job-1")
    assert has_ended(store, "none-1")


def test_data_that_a_tracker_lacks_stays(store: Store, add: Add) -> None:
    """It is the only copy of what an unreachable tracker has not received."""
    tracker = PlannedTracker(kind="wandb", location="e/p", events=[])
    plan = msgspec.to_builtins(TrackingPlan(trackers=[tracker], parameters={}))
    add("job-1", plan={"tracking": plan})
    why = "wandb e/p has not received all data of job-1; send it: rsctl track job-1"
    assert Selection(store, limits()).kept == [Kept("job-1", why)]
    make_tracking_folder("job-1")
    CursorFile("job-1", 0).write(Cursor(is_complete=True))
    assert names(Selection(store, limits())) == ["job-1"]


def test_a_bench_goes_with_all_of_its_runs_or_not_at_all(store: Store, add: Add) -> None:
    for run in ("a-1", "a-2", "b-1", "b-2", "c-1"):
        add(run, "succeeded", 1 if run == "b-2" else 10, "worker-0/log")
    bench(store, "whole-1", "a-1", "a-2", "gone-1")
    bench(store, "young-1", "b-1", "b-2")
    bench(store, "late-1", "c-1", days=1)
    selection = Selection(store, limits())
    [item] = selection.items
    assert (item.kind, item.name, item.runs) == ("bench", "whole-1", ["a-1", "a-2"])
    assert item.size >= 40_000
    assert {run.run for run in selection.kept_runs} == {"b-1", "b-2", "c-1"}
    assert {known.bench for known in selection.kept_benches} == {"young-1", "late-1"}


def test_a_lock_that_cannot_be_used_keeps_what_it_guards_and_no_more(
    store: Store, add: Add
) -> None:
    for run in ("a-1", "b-1", "c-1", "d-1", "free-1"):
        add(run)
    bench(store, "used-1", "b-1")
    bench(store, "driven-1", "c-1")
    store.forget("d-1")
    locks = [run_directory(run) / "supervisor.lock" for run in ("a-1", "b-1", "d-1")]
    locks.append(BenchFolder("driven-1").path / "driver.lock")
    for lock in locks:
        lock.symlink_to(lock)
    selection = Selection(store, limits())
    assert names(selection) == ["free-1"]
    why = [f"cannot use {lock}: Too many levels of symbolic links" for lock in locks]
    assert set(selection.kept) == {
        Kept("a-1", why[0]),
        Kept("used-1", f"of its run b-1: {why[1]}"),
        Kept("driven-1", why[3]),
    }
    assert not has_ended(store, "a-1")
    os.utime(run_directory("d-1"), (1000, 1000))
    assert folder_items(store, limits()) == ([], [])


def test_a_bench_that_is_not_over_stays(store: Store, add: Add) -> None:
    bench(store, "half-1", add("a-1"), state="running")
    bench(store, "used-1", add("b-1"))
    bench(store, "driven-1", add("c-1"))
    held = [RunFolder("b-1").lock(), BenchFolder("driven-1").lock()]
    selection = Selection(store, limits())
    assert names(selection) == []
    assert set(selection.kept) == {
        Kept("half-1", "it is incomplete; cancel it: rsctl bench cancel half-1"),
        Kept("used-1", f"of its run b-1: {BUSY}"),
    }
    for lock in held:
        assert lock is not None
        os.close(lock)


def test_the_baseline_of_what_stays_stays_and_so_does_its_own(store: Store, add: Add) -> None:
    def gate(baseline: str) -> dict[str, Any]:
        return {"spec": {"gate": {"baseline": baseline}}}

    add("run-1")
    add("run-2")
    bench(store, "first-1", **gate("run-1"))
    bench(store, "second-1", **gate("first"))
    bench(store, "third-1", days=1, **gate("second-1"))
    for number, baseline in enumerate(("@last", "", "gs://b/run-2", "git:main:run-2.json")):
        bench(store, f"other-{number}", days=1, **gate(baseline))
    bench(store, "strange-1", days=1, spec={"gate": "run-2"})
    selection = Selection(store, limits())
    assert names(selection) == ["run-2"]
    assert set(selection.kept) == {
        Kept("second-1", "it is the baseline of third-1"),
        Kept("first-1", "it is the baseline of second-1"),
        Kept("run-1", "it is the baseline of first-1"),
    }


def resumed(store: Store, name: str, days: float, **plan: Any) -> str:
    """A run whose plan points to the folders of others."""
    how: dict[str, Any] = {"target": "process", "url": f"process://{name}", "created": ago(days)}
    store.add(RunRecord(run=name, name="j", state=JobState.QUEUED, plan=plan, **how))
    store.record(name, StateEvent(time=ago(days), state=JobState.SUCCEEDED))
    return name


def test_the_files_that_kept_runs_use_stay(store: Store, add: Add, tmp_path: Path) -> None:
    for name in ("first-1", "linked-1", "argued-1", "unused-1", "of-bench-1", "for-bench-1"):
        add(name, "succeeded", 10, "checkpoints/a", "outputs/a")
    (tmp_path / "link").symlink_to(run_directory("linked-1") / "checkpoints")
    bench(store, "used-1", "of-bench-1")
    bench(store, "next-1", days=1, spec={"checkpoints": f"{run_directory('for-bench-1')}/outputs"})
    middle = {"RSCTL_CHECKPOINT_DIR": f"{run_directory('first-1')}/checkpoints"}
    resumed(store, "middle-1", 10, env=middle)
    resumed(store, "old-1", 10, env={"X": f"{run_directory('unused-1')}/checkpoints"})
    resumed(store, "young-1", 1, env={"A": str(run_directory("middle-1"))})
    resumed(store, "linking-1", 1, env={"RSCTL_CHECKPOINT_DIR": f"{tmp_path}/link"})
    argument = f"--init={run_directory('argued-1')}/outputs/a"
    resumed(store, "arguing-1", 1, request={"command": ["train.py", argument]})
    resumed(store, "benching-1", 1, env={"A": f"{run_directory('of-bench-1')}/outputs"})
    selection = Selection(store, limits(has_results=True))
    assert set(names(selection)) == {"unused-1", "old-1"}
    users = {
        "first-1": "middle-1",
        "middle-1": "young-1",
        "linked-1": "linking-1",
        "argued-1": "arguing-1",
        "for-bench-1": "next-1",
    }
    expected = {Kept(n, f"{u} uses its files in {run_directory(n)}") for n, u in users.items()}
    reason = f"benching-1 uses its files in {run_directory('of-bench-1')}"
    assert set(selection.kept) == {*expected, Kept("used-1", reason)}
    of_records = Selection(store, limits())  # outputs and checkpoints stay in any case
    assert "first-1" in names(of_records)
    assert "middle-1" not in names(of_records)


def test_the_results_of_forgotten_runs_stay_for_a_kept_run(store: Store) -> None:
    (run_directory("gone-1") / "checkpoints").mkdir(parents=True)
    resumed(store, "next-1", 1, env={"A": f"{run_directory('gone-1')}/checkpoints"})
    uses = Selection(store, limits(0.5, 1, has_results=True)).kept_uses
    items, kept = folder_items(store, limits(0, has_results=True), uses)
    assert items == []
    assert kept == [Kept("gone-1", f"next-1 uses its files in {run_directory('gone-1')}")]


def test_what_a_killed_process_left(store: Store, add: Add) -> None:
    for run in ("marked-1", "known-1"):
        add(run, "succeeded", 10, "worker-0/log", "outputs/a")
        (run_directory(run) / "forgotten").touch()
    store.forget("marked-1")
    bench(store, "known-b")
    for name in ("gone-b", "driven-b"):
        BenchFolder(name).path.mkdir(parents=True)
    lock = BenchFolder("driven-b").lock()
    assert [(item.kind, item.name) for item in folder_items(store, limits())[0]] == [
        *(("folder", "marked-1"), ("folder", "gone-b")),
    ]
    [small, _], _ = folder_items(store, limits())
    [large, _], _ = folder_items(store, limits(has_results=True))
    assert large.size >= small.size + 20_000
    assert lock is not None
    os.close(lock)


def test_results_of_forgotten_runs_go_when_asked_for(store: Store) -> None:
    for name, days in (("old-1", 8), ("young-1", 6)):
        outputs = run_directory(name) / "outputs"
        outputs.mkdir(parents=True)
        moment = datetime.now().timestamp() - days * DAY
        os.utime(run_directory(name), (moment, moment))
    assert folder_items(store, limits()) == ([], [])
    [item], _ = folder_items(store, limits(has_results=True))
    assert (item.name, item.ended) == ("old-1", changed(run_directory("old-1")))


def aged(path: Path, days: float) -> None:
    moment = datetime.now().timestamp() - days * DAY
    os.utime(path, (moment, moment))


def test_buckets_in_which_nothing_was_written(store: Store, add: Add) -> None:
    for name in ("gs/old", "gs/young", "s3/old", "gs/.part"):
        folder = home() / "rehearsal" / name
        (folder / "a").mkdir(parents=True)
        (folder / "a" / "b").write_bytes(bytes(20_000))
        for path in (folder / "a" / "b", folder / "a", folder):
            aged(path, 8)
    aged(home() / "rehearsal" / "gs" / "young" / "a" / "b", 1)
    items, kept = bucket_items(store, limits())
    assert [(item.kind, item.name) for item in items] == [
        *(("bucket", "gs://old"), ("bucket", "s3://old")),
    ]
    assert kept == []
    assert items[0].size >= 20_000
    assert items[0].ended == last_change(home() / "rehearsal" / "gs" / "old")
    resumed(store, "kept-1", 1, request={"uri": "gs://old/a", "other": "s3://older"})
    run_directory("kept-1").mkdir(parents=True)
    assert len(bucket_items(store, limits(), store.runs())[0]) == 2  # of the cloud, no rehearsal
    (run_directory("kept-1") / "rehearsal.json").touch()
    left, kept = bucket_items(store, limits(), store.runs())
    assert [item.name for item in left] == ["s3://old"]
    assert kept == [Kept("gs://old", "the rehearsal kept-1 uses it")]
    add("going-1", "running")
    lock = try_lock(run_directory("going-1") / "emulator.lock")
    assert lock is not None
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    assert bucket_items(store, limits()) == (
        [],
        [Kept(name, "the rehearsal going-1 is still running") for name in ("gs://old", "s3://old")],
    )
    os.close(lock)
    remove(store, items[0], limits())
    assert not bucket_path("gs://old").exists()
    assert bucket_path("s3://old").is_dir()
    assert remove(store, items[0], limits()) is None
    assert changed(home() / "none").startswith("1970-01-01T00:00:00")


@pytest.mark.parametrize("has_buckets", [False, True])
def test_buckets_go_when_asked_for(store: Store, has_buckets: bool) -> None:
    folder = home() / "rehearsal" / "gs" / "old"
    folder.mkdir(parents=True)
    aged(folder, 8)
    prune = Prune(store, limits())
    prune.select(has_buckets=has_buckets, program=None)
    assert [item.name for item in prune.items] == ["gs://old"] * has_buckets


def test_all_that_was_selected_is_removed(store: Store, add: Add) -> None:
    add("job-1", "succeeded", 10, "outputs/model.pt")
    bench(store, "b-1", add("b-run", "succeeded", 10, "worker-0/log"))
    BenchFolder("left-1").path.mkdir(parents=True)
    prune = Prune(store, limits())
    prune.select(has_buckets=True, program=None)
    assert [item.name for item in prune.items] == ["b-1", "job-1", "left-1"]
    size = prune.bytes
    assert size == sum(item.size for item in prune.items) > 20_000
    prune.remove(None)
    assert [item.name for item in prune.items] == ["b-1", "job-1", "left-1"]
    assert (prune.kept, prune.problems) == ([], [])
    assert store.ids() == set()
    assert Benches(store).benches() == []
    assert not BenchFolder("b-1").path.exists()
    assert not BenchFolder("left-1").path.exists()
    assert not run_directory("b-run").exists()
    assert [path.name for path in run_directory("job-1").iterdir()] == ["outputs"]
    shown = prune.shown(is_dry=False)
    assert (shown["dry_run"], shown["bytes"], shown["database_bytes"]) == (
        *(False, size, store.disk_use()),
    )


def test_what_is_taken_up_between_selection_and_removal_stays(store: Store, add: Add) -> None:
    for run in ("job-1", "b-run", "c-run"):
        add(run)
    bench(store, "b-1", "b-run")
    bench(store, "c-1", "c-run")
    prune = Prune(store, limits())
    prune.select(has_buckets=False, program=None)
    held = [RunFolder("job-1").lock(), RunFolder("b-run").lock(), BenchFolder("c-1").lock()]
    prune.remove(None)
    assert prune.items == []
    assert set(prune.kept) == {
        Kept("job-1", "it is in use"),
        Kept("b-1", "one of its runs is in use"),
        Kept("c-1", "another process has continued it"),
    }
    assert store.ids() == {"job-1", "b-run", "c-run"}
    for lock in held:
        assert lock is not None
        os.close(lock)
    Benches(store).enter("b-1", JobState.RUNNING)
    item = Item(kind="bench", name="b-1", size=0, runs=["b-run"])
    assert remove(store, item, limits()) == Kept("b-1", "another process has continued it")


def test_one_problem_does_not_keep_the_others(
    store: Store, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    add("job-1")
    add("job-2")
    real = removal.forget

    def refuse(store: Store, run: str, with_results: bool) -> Any:
        if run == "job-2":
            raise RsctlError(ExitCode.ENVIRONMENT)
        return real(store, run, with_results)

    monkeypatch.setattr(removal, "forget", refuse)
    prune = Prune(store, limits())
    prune.select(has_buckets=False, program=None)
    prune.remove(None)
    assert [item.name for item in prune.items] == ["job-1"]
    assert len(prune.problems) == 1


@pytest.mark.parametrize(
    ("why", "reason"), [("database is locked", "it is in use"), ("no space", "no space")]
)
def test_a_database_that_cannot_be_made_smaller_now(
    store: Store, monkeypatch: pytest.MonkeyPatch, why: str, reason: str
) -> None:
    def fail(_: Store) -> int:
        raise StoreError(ExitCode.ENVIRONMENT, removal.error("store", why))

    monkeypatch.setattr(Store, "shrink", fail)
    prune = Prune(store, limits())
    prune.remove(None)
    [kept] = prune.kept
    assert kept.name == "the database"
    assert kept.reason.endswith(f"{reason}; the next prune shrinks it")


def test_two_prune_one_after_the_other(rsctl_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    with one_at_a_time(lambda: waits.append(1)):
        assert waits == []
        held = rsctl_home / "prune.lock"
        assert try_lock(held) is None
    lock = try_lock(held)
    assert lock is not None
    monkeypatch.setattr(removal, "sleep", lambda _: os.close(lock))
    with one_at_a_time(lambda: waits.append(1)):
        assert waits == [1]
    assert try_lock(held) is not None


def test_a_home_that_cannot_be_written(rsctl_home: Path) -> None:
    rsctl_home.touch()
    with pytest.raises(RsctlError) as caught, one_at_a_time(lambda: None):
        pass
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert caught.value.findings[0].message == f"cannot write {rsctl_home}: Not a directory"


def test_a_folder_that_cannot_be_removed_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RSCTL_HOME", str(tmp_path / "my home"))
    path = BenchFolder("left-1").path
    path.mkdir(parents=True)

    def refuse(target: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(target))

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(RsctlError) as caught:
        remove(store, Item(kind="folder", name="left-1", size=0), limits())
    [finding] = caught.value.findings
    assert finding.message == f"{path} stays: Operation not permitted"
    assert finding.remedy == f"remove it yourself: sudo rm -r '{path}'"
