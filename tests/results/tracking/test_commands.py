"""Jobs with trackers from the command line: what is sent, and that nobody waits for a tracker."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rsctl.cli.app import run as run_command
from rsctl.cli.tracking import wait_for_trackers
from rsctl.findings import ExitCode
from rsctl.job.tracking import PlannedTracker
from rsctl.results.tracking.background import resume, start
from rsctl.results.tracking.cursor import CursorFile, lock_path
from rsctl.runs.locks import holder
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from tests.kit.polling import wait_until
from tests.results.tracking.conftest import TrackedJob
from tests.results.tracking.server import SilentServer, free_port

VERTEX = {"targets": {"vertex": {"project": "p", "region": "us-central1"}}}
WriteJob = Callable[..., str]


@pytest.fixture
def write_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteJob:
    """Writes a job of a second that logs three losses, with some trackers."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere")

    def write(*trackers: dict[str, str], **more: Any) -> str:
        script = "for i in 1 2 3; do echo loss=$i; done"
        job = {
            "name": "job",
            "run": {"command": ["bash", "-c", script], "launcher": "once"},
            "metrics": {"loss": {"regex": "loss=(.*)", "goal": "min"}},
            "tracking": list(trackers),
            **more,
        }
        Path("job.yaml").write_text(yaml.safe_dump(job))
        return "job.yaml"

    return write


def losses(folder: Path) -> list[float]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return [event.value for event in EventAccumulator(str(folder)).Reload().Scalars("loss")]


def last_run() -> RunRecord:
    return Store().find("@last")


def test_submit_sends_all_and_track_has_nothing_more(
    write_job: WriteJob, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job({"tensorboard": "tb"})
    assert run_command(["submit", job]) == 0
    run = last_run().run
    assert losses(Path("tb") / run) == [1.0, 2.0, 3.0]
    capsys.readouterr()
    assert run_command(["track", "@last", "-o", "json"]) == 0
    shown = {"kind": "tensorboard", "location": str(Path("tb").resolve())}
    assert json.loads(capsys.readouterr().out) == {
        "runs": [{"run": run, "trackers": [{**shown, "complete": True, "problem": None}]}]
    }


def test_a_detached_run_is_sent_too(write_job: WriteJob) -> None:
    assert run_command(["submit", "-d", write_job({"tensorboard": "tb"})]) == 0
    run = last_run().run
    wait_until(lambda: CursorFile(run, 0).read().is_complete)
    assert losses(Path("tb") / run) == [1.0, 2.0, 3.0]


def test_the_runs_of_a_bench_are_sent(write_job: WriteJob) -> None:
    job = write_job({"tensorboard": "tb"}, matrix={"workers.count": [1, 2]})
    assert run_command(["bench", "run", job, "--parallel", "2"]) == 0
    runs = [run.run for run in Store().runs()]
    wait_until(lambda: all(CursorFile(run, 0).read().is_complete for run in runs))
    assert [losses(Path("tb") / run) for run in runs] == [[1.0, 2.0, 3.0]] * 2


def test_a_tracker_that_is_down_delays_nothing_and_gets_the_rest_later(
    write_job: WriteJob, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    job = write_job({"tensorboard": str(tmp_path / "file")}, {"tensorboard": "tb"})
    assert run_command(["submit", job]) == 0
    shown = capsys.readouterr().err
    run = last_run().run
    assert f"tensorboard {tmp_path}/file has not received all data: " in shown
    assert f"rsctl track {run}" in shown
    assert losses(Path("tb") / run) == [1.0, 2.0, 3.0]
    assert run_command(["track", run]) == ExitCode.ENVIRONMENT
    (tmp_path / "file").unlink()
    assert run_command(["track", run]) == 0
    assert losses(tmp_path / "file" / run) == [1.0, 2.0, 3.0]


def test_a_tracker_that_never_answers_does_not_hold_up_the_job(
    write_job: WriteJob, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rsctl.cli.tracking._WAIT_SECONDS", 1.0)
    with SilentServer() as silent:
        url = f"http://127.0.0.1:{silent.port}"
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", url)
        key = Path("key.json")
        key.write_text(json.dumps({"type": "authorized_user", "client_id": "c",
            "client_secret": "s", "refresh_token": "r", "token_uri": f"{url}/token"}))  # fmt: skip
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key.resolve()))
        job = write_job({"vertex": "exp"}, {"tensorboard": "tb"}, **VERTEX)
        begun = time.monotonic()
        assert run_command(["submit", job]) == 0
        run = last_run()
        took = time.monotonic() - begun
        assert "data is still being sent to vertex exp in the background" in capsys.readouterr().err
        assert losses(Path("tb") / run.run) == [1.0, 2.0, 3.0]
        assert took < 60
        process = holder(lock_path(run.run))
    if process:
        os.kill(process, signal.SIGKILL)


def test_the_next_command_that_meets_a_run_has_the_rest_sent(tmp_path: Path) -> None:
    job = TrackedJob(PlannedTracker(kind="tensorboard", location=str(tmp_path / "tb")))
    job.log([1.0, 2.0])
    job.end()
    assert run_command(["status", "job-a"]) == 0
    wait_until(lambda: CursorFile("job-a", 0).read().is_complete)
    assert losses(tmp_path / "tb" / "job-a") == [1.0, 2.0]


def test_a_tracker_that_has_just_failed_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    job = TrackedJob(PlannedTracker(kind="tensorboard", location=str(tmp_path / "file")))
    job.end()
    start(["job-a"], follow=False).wait()
    known = Store().get("job-a")
    assert known is not None
    assert CursorFile("job-a", 0).read().problem
    assert not resume(known)


def test_the_end_of_a_run_does_not_wait_for_a_sender_that_was_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = TrackedJob(PlannedTracker(kind="tensorboard", location=str(tmp_path / "tb")))
    job.log([1.0, 2.0])
    job.end()
    wait_for_trackers(Store().find("job-a"))
    assert (losses(tmp_path / "tb" / "job-a"), capsys.readouterr().err) == ([1.0, 2.0], "")


def test_a_sender_that_is_killed_is_followed_by_another(tmp_path: Path) -> None:
    job = TrackedJob(PlannedTracker(kind="tensorboard", location=str(tmp_path / "tb")))
    for kill in range(3):
        job.log([float(n) for n in range(500)], step=500 * kill)
        process = start(["job-a"], follow=True)
        rows = CursorFile("job-a", 0).read().row
        wait_until(lambda rows=rows: CursorFile("job-a", 0).read().row > rows)
        process.kill()
        process.wait()
    job.end()
    start(["job-a"], follow=False).wait()
    assert losses(tmp_path / "tb" / "job-a") == [float(n) for n in range(500)] * 3


def test_a_run_without_trackers_is_told_apart(
    write_job: WriteJob, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job()
    assert run_command(["submit", job]) == 0
    assert run_command(["track", "@last"]) == ExitCode.USAGE
    assert "its job has no tracking" in capsys.readouterr().err


def test_mlflow_without_its_client_names_the_command(write_job: WriteJob) -> None:
    job = write_job({"mlflow": f"http://127.0.0.1:{free_port()}"})
    assert run_command(["submit", job]) == 0
    problem = CursorFile(last_run().run, 0).read().problem or ""
    assert "needs its client" in problem
    assert "pip install 'mlflow-skinny" in problem


def test_the_job_file_is_kept_with_its_run_and_shown(
    write_job: WriteJob, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job()
    text = Path(job).read_text() + "# as written: ${HOME}\nx-token: hunter22\n"
    Path(job).write_text(text)
    assert run_command(["submit", job]) == 0
    capsys.readouterr()
    assert run_command(["status", "@last", "-o", "json"]) == 0
    shown = text.replace("hunter22", "***")
    assert json.loads(capsys.readouterr().out)["spec"] == shown
    assert run_command(["report", "@last", "-o", "-"]) == 0
    report = capsys.readouterr().out
    assert "# as written: ${HOME}" in report
    assert "hunter22" not in report
