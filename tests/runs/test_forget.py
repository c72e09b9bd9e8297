"""Removing a run: what goes, what stays, and what a killed removal leaves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.forget import (
    folders_without_run,
    forget,
    leftover_results,
    remove_folder,
    unfinished_removals,
    without_record,
)
from rsctl.runs.store import Store
from rsctl.runs.store_errors import DiskFull
from tests.kit.disks import deep_folder

from .conftest import a_run


def made(store: Store, run: str = "job-1", *files: str) -> Path:
    """The folder of a run in the store, with these files below it."""
    store.add(a_run(run))
    folder = RunFolder(run)
    folder.create(RunDescription(run=run, target="process", request={}, replicas=["worker-0"]))
    for name in files:
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / name).write_text("x")
    return folder.path


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_process_that_ended_a_run_holds_it_for_a_moment(store: Store) -> None:
    path = made(store)
    lock = RunFolder("job-1").lock()
    with pytest.raises(RsctlError, match="job-1 is in use"):
        forget(store, "job-1")
    threading.Timer(0.2, os.close, [lock]).start()
    assert forget(store, "job-1", seconds=60) == []
    assert not path.exists()


def test_a_job_cannot_keep_its_run_by_deep_folders(store: Store) -> None:
    """Before Python 3.13 shutil removes folders by recursion."""
    path = made(store)
    with deep_folder(path / "outputs"), suppress(RsctlError):
        forget(store, "job-1", with_results=True)
    assert store.ids() == set()


def test_record_and_folder_go_and_results_stay(store: Store) -> None:
    path = made(store, "job-1", "outputs/a/model.pt", "checkpoints/1.pt", "worker-0/log")
    other = made(store, "job-2", "outputs/model.pt")
    assert forget(store, "job-1") == [path / "outputs", path / "checkpoints"]
    assert names(path) == ["checkpoints/1.pt", "outputs/a/model.pt"]
    assert store.ids() == {"job-2"}
    assert (other / "submission.json").exists()


def test_results_go_when_that_is_asked_for_or_when_they_are_empty(store: Store) -> None:
    path = made(store, "job-1", "outputs/model.pt")
    assert forget(store, "job-1", with_results=True) == []
    assert not path.exists()
    path = made(store, "job-2")
    (path / "outputs").mkdir()
    assert forget(store, "job-2") == []
    assert not path.exists()


def test_a_run_that_somebody_looks_after_stays(store: Store) -> None:
    path = made(store, "job-1", "worker-0/log")
    lock = RunFolder("job-1").lock()
    with pytest.raises(RsctlError) as caught:
        forget(store, "job-1")
    os.close(lock)
    assert caught.value.exit_code == ExitCode.USAGE
    [finding] = caught.value.findings
    assert finding.remedy == "cancel it first: rsctl cancel job-1"
    assert store.ids() == {"job-1"}
    assert names(path) == [
        *("states.log", "submission.json", "supervisor.lock", "supervisor.log"),
        "worker-0/log",
    ]
    assert forget(store, "job-1") == []
    assert not path.exists()


def test_a_run_without_a_folder(store: Store) -> None:
    store.add(a_run("job-1"))
    assert forget(store, "job-1") == []
    assert store.ids() == set()


def test_a_link_is_removed_and_not_followed(store: Store, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("x")
    path = made(store, "job-1")
    (path / "inputs").symlink_to(tmp_path / "data")
    forget(store, "job-1")
    assert not path.exists()
    assert (tmp_path / "data" / "mine").exists()
    path.symlink_to(tmp_path / "data")
    assert remove_folder("job-1") == []
    assert not path.is_symlink()
    assert (tmp_path / "data" / "mine").exists()


def test_what_a_killed_removal_left_is_found(store: Store) -> None:
    made(store, "job-1", "forgotten")  # it was marked, and its record is still there
    made(store, "job-2")
    gone = made(store, "job-3", "forgotten", "outputs/model.pt")
    store.forget("job-3")
    assert unfinished_removals(store) == ["job-3"]
    assert leftover_results(store) == []
    assert remove_folder("job-3") == [gone / "outputs"]
    assert unfinished_removals(store) == []
    assert leftover_results(store) == ["job-3"]
    assert remove_folder("job-3", with_results=True) == []
    assert leftover_results(store) == []


def test_only_outputs_and_checkpoints_of_runs_without_a_record_are_left_over(store: Store) -> None:
    runs = RunFolder("x").path.parent
    for name in ("known-1/outputs", "left-1/checkpoints", "left-2/outputs", "more-1/outputs"):
        (runs / name).mkdir(parents=True)
    (runs / "more-1" / "worker-0").mkdir()
    (runs / "empty-1").mkdir()
    (runs / "a-file").touch()
    store.add(a_run("known-1"))
    assert leftover_results(store) == ["left-1", "left-2"]
    assert without_record(store, []) == []
    assert without_record(store, ["x", "known-1"]) == ["x"]


def test_folders_of_killed_submissions_are_found(store: Store) -> None:
    """A folder is not found while a process holds its run."""
    made(store, "known-1")
    for name in ("killed-1/worker-0", "left-1/outputs", "taken-1/worker-0"):
        (RunFolder("x").path.parent / name).mkdir(parents=True)
    lock = RunFolder("taken-1").lock()
    assert folders_without_run(store) == ["killed-1"]
    os.close(lock)
    assert folders_without_run(store) == ["killed-1", "taken-1"]


def test_what_cannot_be_removed_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RSCTL_HOME", str(tmp_path / "my home"))
    path = made(store, "job-1", "worker-0/log")

    def refuse(target: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(target))

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(RsctlError) as caught:
        forget(store, "job-1")
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    [finding] = caught.value.findings
    assert finding.message.endswith(f"{path / 'worker-0'} remains: Operation not permitted")
    assert finding.remedy == f"remove it yourself: sudo rm -r '{path}'"
    assert store.ids() == set()
    assert unfinished_removals(store) == ["job-1"]  # the mark stays to the last
    assert not RunFolder("job-1").is_supervised()


@pytest.mark.parametrize("times", [1, 2, 3])
def test_files_that_come_while_a_folder_is_removed(
    store: Store, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Another process may write there; it is tried three times."""
    path = made(store, "job-1", "worker-0/log")
    remove: Callable[[Path], None] = Path.rmdir
    left = [times]

    def busy(folder: Path) -> None:
        if folder == path and left[0]:
            left[0] -= 1
            (path / "late").touch()
        remove(folder)

    monkeypatch.setattr(Path, "rmdir", busy)
    if times < 3:
        assert forget(store, "job-1") == []
        assert not path.exists()
    else:
        with pytest.raises(RsctlError, match="Directory not empty"):
            forget(store, "job-1")


@pytest.mark.parametrize("is_enough", [True, False])
def test_on_a_full_disk_the_files_go_first(
    store: Store, monkeypatch: pytest.MonkeyPatch, is_enough: bool
) -> None:
    path = made(store, "job-1", "worker-0/log", "outputs/model.pt")
    real = Store.forget

    def full(self: Store, run: str) -> None:
        if (path / "worker-0").exists() or not is_enough:
            raise DiskFull(ExitCode.ENVIRONMENT)
        real(self, run)

    monkeypatch.setattr(Store, "forget", full)
    if is_enough:
        assert forget(store, "job-1") == [path / "outputs"]
        assert store.ids() == set()
    else:
        with pytest.raises(RsctlError) as caught:
            forget(store, "job-1")
        [finding] = caught.value.findings
        assert finding.message.startswith("the files of job-1 are removed, but its record remains")
        assert finding.remedy == "free disk space, then: rsctl forget job-1"
        assert store.ids() == {"job-1"}
    assert names(path) == ["outputs/model.pt"]
