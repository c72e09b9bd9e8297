"""Runs that are lost, damaged or forgotten: each is its own affair."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.job.tracking import PlannedTracker, TrackingPlan
from rsctl.results.tracking.cursor import Cursor, CursorFile, make_tracking_folder
from rsctl.runs.store import Store
from rsctl.targets.local import process
from rsctl.targets.vertex.target import TARGET as VERTEX
from tests.api.recorded import add

from .conftest import Cli, MadeRun

Make = Callable[..., MadeRun]
LOCAL = "name: t\nimage: {source: src}\nrun: {script: train.py, launcher: once}\n"


def test_forgetting_a_run(rsctl: Cli, make_run: Make) -> None:
    made = make_run("job-aaaaaa").succeed(3)
    make_run("job-bbbbbb", second=1).succeed(4)
    made.metric(2, "loss", 1.0)
    done = rsctl("forget", "job-a")
    assert (done.code, done.out, done.err) == (0, "", "removed the records of job-aaaaaa\n")
    assert [run.run for run in Store().runs()] == ["job-bbbbbb"]
    assert not made.folder.path.exists()
    assert list(Store().metrics("job-aaaaaa")) == []
    assert rsctl("forget", "job-aaaaaa").code == 2
    assert rsctl("forget", "@last", "-o", "json").json == {"run": "job-bbbbbb", "kept": []}
    assert rsctl("forget", "@last").code == 2


def test_what_a_job_wrote_stays(rsctl: Cli, make_run: Make) -> None:
    made = make_run().succeed(3)
    for name in ("outputs", "checkpoints"):
        (made.folder.path / name).mkdir()
    (made.folder.path / "outputs" / "model.pt").touch()
    outputs = made.folder.path / "outputs"
    done = rsctl("forget", "@last")
    assert done.err == f"removed the records of job-aaaaaa; its files remain in {outputs}\n"
    assert [path.name for path in made.folder.path.iterdir()] == ["outputs"]
    assert [path.name for path in outputs.iterdir()] == ["model.pt"]


def test_files_that_another_run_uses_stay(rsctl: Cli, make_run: Make) -> None:
    folder = make_run("job-aaaaaa").succeed(3).folder.path
    for name in ("checkpoints", "checkpoints-b"):
        (folder / name).mkdir()
        (folder / name / "step").touch()
    env = {"RSCTL_CHECKPOINT_DIR": str(folder / "checkpoints-b")}
    add("job-bbbbbb", "succeeded", plan={"env": env})
    done = rsctl("forget", "job-a")
    assert (done.code, done.err) == (
        2,
        f"error: job-bbbbbb uses the files of job-aaaaaa in {folder}\n"
        "    -> remove job-bbbbbb before it, if you no longer need its results\n",
    )
    assert rsctl("forget", "job-a", "--force").code == 2
    assert (folder / "checkpoints-b" / "step").exists()
    assert len(Store().runs()) == 2
    add("job-cccccc", plan={"env": {"A": str(folder / "checkpoints")}})
    assert rsctl("forget", "job-b").code == 0
    assert rsctl("forget", "job-a").code == 0
    assert (folder / "checkpoints" / "step").exists()


def test_a_run_that_goes_on_is_not_forgotten(rsctl: Cli, make_run: Make) -> None:
    lock = make_run().folder.lock()
    done = rsctl("forget", "@last")
    assert done.code == 2
    assert done.err == (
        "error: job-aaaaaa is running, according to its last known state\n"
        "    -> cancel it: rsctl cancel job-aaaaaa   or remove it without cancelling: --force\n"
    )
    done = rsctl("forget", "@last", "--force")
    assert done.code == 2
    assert "job-aaaaaa is in use" in done.err
    os.close(lock)
    assert rsctl("forget", "@last").code == 0  # its supervisor is gone


@pytest.mark.parametrize("kind", ["mlflow", "notify"])
def test_data_that_a_tracker_lacks_is_not_removed(rsctl: Cli, make_run: Make, kind: str) -> None:
    """A message is not data: its time has passed."""
    trackers = [PlannedTracker(kind=kind, location="https://x", events=[])]
    plan = TrackingPlan(trackers=trackers, parameters={})
    for run in ("job-aaaaaa", "job-bbbbbb"):
        make_run(run, tracking=msgspec.to_builtins(plan)).succeed(3)
    make_tracking_folder("job-bbbbbb")
    CursorFile("job-bbbbbb", 0).write(Cursor(is_complete=True))
    done = rsctl("forget", "job-a")
    if kind == "mlflow":
        assert (done.code, done.err) == (
            2,
            "error: mlflow https://x has not received all data of job-aaaaaa\n"
            "    -> send it: rsctl track job-aaaaaa   or remove the run without sending: --force\n",
        )
        assert rsctl("forget", "job-a", "--force").code == 0
    assert rsctl("forget", "job-b").code == 0
    assert Store().runs() == []


def test_a_lost_job_of_a_cloud_is_forgotten_by_force(rsctl: Cli, make_run: Make) -> None:
    make_run(target="vertex")
    assert rsctl("forget", "@last").code == 2
    done = rsctl("forget", "@last", "--force")
    assert (done.code, done.err) == (
        0,
        "warning: rsctl no longer follows vertex://job-aaaaaa\n"
        "    -> end it there, if it still runs\n"
        "removed the records of job-aaaaaa\n",
    )


def test_a_run_that_cannot_be_asked_for_is_its_own_warning(
    rsctl: Cli, make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def fail(run: str) -> None:
        asked.append(run)
        raise RsctlError(ExitCode.ENVIRONMENT, error("credentials", "no log-in", "log in"))

    monkeypatch.setattr(VERTEX, "reconcile", fail, raising=False)
    for second, run in enumerate(["job-aaaaaa", "job-bbbbbb"]):
        make_run(run, second=second, target="vertex")
    make_run("job-cccccc", second=3).succeed(4)
    done = rsctl("list")
    assert (done.code, len(done.out.splitlines())) == (0, 4)
    assert done.err == (
        "job-aaaaaa may be out of date:\n"
        "warning: no log-in\n"
        "    -> log in\n"
        "job-bbbbbb may also be out of date\n"
    )
    assert asked == ["job-aaaaaa"]


@pytest.mark.parametrize("broken", ["file", "nothing", "garbage", "link"])
def test_a_broken_folder_blocks_nobody(
    rsctl: Cli, make_run: Make, tmp_path: Path, broken: str
) -> None:
    made = make_run("job-aaaaaa", workers=1)
    shutil.rmtree(made.folder.path)
    if broken == "file":
        made.folder.path.touch()
    elif broken == "garbage":
        made.folder.path.mkdir()
        (made.folder.path / "submission.json").write_bytes(b"\xff{")
        (made.folder.path / "states.log").mkdir()
    elif broken == "link":
        made.folder.path.symlink_to(tmp_path / "away")
    rsctl.write(LOCAL)
    done = rsctl("submit", "job.yaml", "-t", "process", "--detach")
    assert done.code == 0, done.err
    assert rsctl("status", done.out.strip(), "--watch").code == 0
    done = rsctl("list")
    assert (done.code, len(done.out.splitlines())) == (0, 3), done.err
    assert rsctl("forget", "job-a", "--force").code == 0
    assert len(rsctl("list").out.splitlines()) == 2


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        (
            ZeroDivisionError("oops"),
            "ZeroDivisionError: oops\n    -> to remove its records: rsctl forget\n",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "job-aaaaaa/states.log"),
            "job-aaaaaa/states.log: Read-only file system\n    -> make its disk writable\n",
        ),
    ],
)
def test_a_problem_of_one_run_blocks_nobody(
    rsctl: Cli,
    make_run: Make,
    monkeypatch: pytest.MonkeyPatch,
    problem: Exception,
    shown: str,
) -> None:
    def fail(_run: str) -> None:
        raise problem

    monkeypatch.setattr(process.TARGET, "reconcile", fail, raising=False)
    make_run()
    done = rsctl("list")
    assert (done.code, done.err) == (0, f"job-aaaaaa may be out of date:\nwarning: {shown}")


def test_a_damaged_record_is_its_own_warning(rsctl: Cli, make_run: Make) -> None:
    for second, run in enumerate(["job-aaaaaa", "other-bbbbbb"]):
        make_run(run, second=second).succeed(second + 5)
    with sqlite3.connect(Store().path) as database:
        database.execute("UPDATE runs SET plan='{' WHERE id='job-aaaaaa'")
    done = rsctl("list")
    assert (done.code, len(done.out.splitlines())) == (0, 2)
    assert done.err.startswith("warning: cannot read job-aaaaaa: ")
    assert done.err.endswith("    -> remove its records: rsctl forget job-aaaaaa\n")
    assert rsctl("cancel", "other").code == 0
    assert rsctl("status", "job-a").code == 3
    done = rsctl("forget", "job-a")
    assert (done.code, done.err) == (0, "removed the records of job-aaaaaa\n")
    assert rsctl("list").err == ""
    with sqlite3.connect(Store().path) as database:
        database.execute("UPDATE runs SET plan='{'")
    done = rsctl("list")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("warning: cannot read other-bbbbbb: ")
    assert "no runs yet" not in done.err


def test_the_last_run_is_the_one_that_was_recorded_last(rsctl: Cli, make_run: Make) -> None:
    """Also when the clock was set back in between."""
    make_run("job-aaaaaa", second=30).succeed(40)
    make_run("job-bbbbbb", second=1).succeed(5)
    assert rsctl("status", "@last").out.startswith("process://job-bbbbbb  succeeded")
    assert rsctl("list").out.splitlines()[1].startswith("job-bbbbbb")
    assert Store().find("@last").state is JobState.SUCCEEDED
