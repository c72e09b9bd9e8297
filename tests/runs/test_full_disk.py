"""The database on a full disk: it is read, and written again when there is space."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rsctl.bench.records import Benches
from rsctl.findings import ExitCode
from rsctl.runs import store_errors
from rsctl.runs.placements import current_placement, is_ending
from rsctl.runs.predictions import prediction_of
from rsctl.runs.profiles import profiles_of
from rsctl.runs.step_times import steps_of
from rsctl.runs.store import Store
from rsctl.runs.store_errors import DiskFull, StoreError, is_at_limit, is_full
from rsctl.runs.stream.events import MetricEvent
from rsctl.runs.versions import versions_of
from tests.kit.disks import fill, small_disk

from .conftest import a_run, at

__all__ = ["small_disk"]


def values(count: int) -> list[MetricEvent]:
    return [
        MetricEvent(time=at(2), replica="worker-0", name="loss", step=n, value=float(n))
        for n in range(count)
    ]


def test_a_full_disk_is_read_and_written_when_there_is_space(small_disk: Path) -> None:
    path = small_disk / "runs.db"
    store = Store(path)
    store.add(a_run("job-1"))
    store.close()
    filler = fill(small_disk)
    full = Store(path)
    assert full.find("job-1").name == "job"
    assert full.summary("job-1") == {}
    assert (versions_of(full, "job-1"), profiles_of(full, "job-1")) == ({}, [])
    assert (steps_of(full, "job-1"), prediction_of(full, "job-1")) == (None, None)
    assert (current_placement(full, "job-1"), is_ending(full, "job-1")) == (None, False)
    assert (Benches(full).benches(), Benches(full).by_run()) == ([], {})
    with pytest.raises(DiskFull) as caught:
        full.add(a_run("job-2"))
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    [finding] = caught.value.findings
    assert finding.message == f"cannot use {path}: its disk is full"
    assert finding.remedy == "free disk space, or set RSCTL_HOME to another folder"
    filler.unlink()
    full.add(a_run("job-2"))
    assert full.ids() == {"job-1", "job-2"}
    full.close()


def test_much_space_of_removed_records_is_given_back(store: Store) -> None:
    store.add(a_run("job-1"))
    assert store.shrink() == 0
    for run in ("job-2", "job-3"):
        store.add(a_run(run))
        store.add_metrics(run, values(30_000))
    store.forget("job-2")
    store.add_metrics("job-1", values(3))
    before = store.disk_use()
    freed = store.shrink()
    assert freed == before - store.disk_use() > 1 << 20
    assert [value.value for _, value in store.metrics("job-1")] == [0.0, 1.0, 2.0]
    assert store.shrink() == 0


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (DiskFull(ExitCode.ENVIRONMENT), True),
        (OSError(errno.ENOSPC, "x"), True),
        (OSError(errno.EDQUOT, "x"), True),
        (OSError(errno.EFBIG, "x"), True),
        (OSError(errno.EACCES, "x"), False),
        (sqlite3.OperationalError("database or disk is full"), True),
        (sqlite3.OperationalError("database is locked"), False),
        (sqlite3.DatabaseError("database or disk is full"), False),
        (sqlite3.OperationalError("disk I/O error"), False),
    ],
)
def test_errors_for_want_of_space(problem: Exception, expected: bool, tmp_path: Path) -> None:
    assert is_full(problem, tmp_path / "runs.db") is expected


def test_an_error_of_the_disk_is_want_of_space_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = sqlite3.OperationalError("disk I/O error")
    for space, expected in ((64 << 10, False), ((64 << 10) - 1, True), (0, True)):
        monkeypatch.setattr(store_errors, "_space", lambda _, space=space: space)
        assert is_full(problem, tmp_path / "runs.db") is expected
    monkeypatch.undo()
    assert is_full(problem, tmp_path / "none" / "runs.db")  # its folder is gone


def limited(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, resource.RLIM_INFINITY))


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_database_near_the_largest_file_that_the_process_may_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    path = tmp_path / "runs.db"
    other = path.with_name(f"runs.db{suffix}")
    other.write_bytes(b"")
    assert not is_at_limit(path)
    limited(monkeypatch, 1 << 20)
    for size, expected in (((1 << 20) - (64 << 10), False), ((1 << 20) - (64 << 10) + 1, True)):
        other.write_bytes(bytes(size))
        assert is_at_limit(path) is expected
    limited(monkeypatch, resource.RLIM_INFINITY)
    assert not is_at_limit(path)


def test_a_limit_that_hardly_any_database_fits_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, (128 << 10) - 1)
    assert is_at_limit(tmp_path / "runs.db")
    limited(monkeypatch, 128 << 10)
    assert not is_at_limit(tmp_path / "runs.db")


def test_at_such_a_limit_the_remedy_is_to_raise_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, 1 << 10)
    with pytest.raises(DiskFull) as caught, store.transaction():
        raise OSError(errno.EFBIG, "File too large")
    [finding] = caught.value.findings
    assert finding.message.endswith(
        "one of its files has reached this process's limit of file sizes"
    )
    assert (finding.remedy or "").startswith("raise the limit: ulimit -f unlimited")


def test_each_problem_has_its_remedy(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    writable = f"let this user write to {store.path.parent}, or set RSCTL_HOME"
    for why, remedy in (
        ("database is locked", "end the process that holds the lock, or set RSCTL_HOME"),
        ("attempt to write a readonly database", writable),
        ("no such table: x", "move it to another place, or set RSCTL_HOME"),
    ):
        with pytest.raises(StoreError) as caught, store.transaction():
            raise sqlite3.OperationalError(why)
        [finding] = caught.value.findings
        assert (finding.remedy or "").startswith(remedy)
        assert not isinstance(caught.value, DiskFull)
    for number in (errno.EACCES, errno.EROFS):
        with pytest.raises(StoreError) as caught, store.transaction():
            raise OSError(number, os.strerror(number), "x")
        assert (caught.value.findings[0].remedy or "").startswith(writable)
    with pytest.raises(StoreError) as caught, store.transaction():
        raise sqlite3.DatabaseError("locked")
    assert (caught.value.findings[0].remedy or "").startswith("move it to another place")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StoreError) as caught, store.transaction():
        raise sqlite3.OperationalError("unable to open database file")
    assert (caught.value.findings[0].remedy or "").startswith(writable)


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    def half(*_: Any) -> None:
        with store.transaction() as db:
            db.execute("UPDATE runs SET name='x'")
            raise sqlite3.OperationalError("no")

    store.add(a_run("job-1"))
    with pytest.raises(StoreError):
        half()
    assert store.find("job-1").name == "job"
