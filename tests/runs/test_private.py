"""RSCTL_HOME and what is in it are for their user alone, whichever command makes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.home import private_folder
from rsctl.runs.store import Store

from .conftest import a_run


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """What below a folder, itself included, is open to others although all above it is too."""
    found = []
    for path in [folder, *folder.iterdir()] if folder.stat().st_mode & 0o077 else [folder]:
        if path.stat().st_mode & 0o077:
            found.append(path.name)
    return found


def test_the_database(rsctl_home: Path) -> None:
    store = Store(rsctl_home / "deep" / "er" / "runs.db")
    store.add(a_run("job-1"))
    for path in [rsctl_home, *rsctl_home.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    assert {path.name for path in (rsctl_home / "deep" / "er").iterdir()} >= {"runs.db-wal"}


def test_a_database_that_was_open_to_others(rsctl_home: Path) -> None:
    Store().close()
    (rsctl_home / "runs.db").chmod(0o644)
    store = Store()
    store.add(a_run("job-1"))
    for name in ("runs.db", "runs.db-wal", "runs.db-shm"):
        assert (rsctl_home / name).stat().st_mode & 0o077 == 0


def test_a_runs_folder(rsctl_home: Path) -> None:
    RunFolder("t-aaaaaa").create(
        RunDescription(run="t-aaaaaa", target="process", request={}, replicas=["worker-0"])
    )
    assert open_to_others(rsctl_home) == []


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    private_folder(tmp_path / "shared" / "own")
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "shared" / "own").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        private_folder(tmp_path / "file" / "below")
