"""Weights & Biases: what its own client sends to a server on loopback, from an environment of its
own."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rsctl.findings import JobState
from rsctl.job.tracking import PlannedTracker
from rsctl.results.tracking.cursor import Cursor, CursorFile
from rsctl.runs.home import home
from tests.kit.preloaded import Preloaded
from tests.results.tracking.clients import PYTHON, needs_trackers, send_by
from tests.results.tracking.conftest import PARAMETERS, SPEC, TrackedJob
from tests.results.tracking.server import free_port
from tests.results.tracking.wandb_server import WandbServer

Send = Callable[..., Cursor]

KEY = "0123456789" * 4

pytestmark = needs_trackers


@pytest.fixture
def server() -> Iterator[WandbServer]:
    with WandbServer() as started:
        yield started


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preloaded]:
    """Runs programs without the time that importing W&B's client takes."""
    folder = tmp_path_factory.mktemp("clients")
    with Preloaded(PYTHON, folder, "wandb", "matplotlib.figure") as started:
        yield started


@pytest.fixture
def send(clients: Preloaded, tmp_path: Path) -> Send:
    """Send what there is of a run, as `rsctl track` does; how far it came."""

    def call(run: str, *, by_a_fresh_interpreter: bool = False, **variables: str) -> Cursor:
        environ = {k: value for k, value in os.environ.items() if not k.startswith("WANDB_")}
        environ |= {"WANDB_API_KEY": KEY, "WANDB_ERROR_REPORTING": "false", "HOME": str(tmp_path)}
        environ |= variables
        return send_by(None if by_a_fresh_interpreter else clients, run, environ)

    return call


def job_for(url: str, run: str = "job-a") -> TrackedJob:
    return TrackedJob(PlannedTracker(kind="wandb", location=f"{url}/team/proj"), run)


def test_all_is_there_once_and_the_key_nowhere(
    server: WandbServer, send: Send, tmp_path: Path
) -> None:
    job = job_for(server.url)
    job.log([4.0, 2.0], step=7)
    job.log([math.nan])
    job.log([3.0], replica="worker-1")
    assert send(job.run, by_a_fresh_interpreter=True).problem is None
    stored = server.runs["job-a"]
    assert not stored.is_complete
    before = CursorFile(job.run, 0).read()
    # Killed after it has sent more, and before that was written down.
    job.log([1.0], step=11)
    send(job.run)
    CursorFile(job.run, 0).write(before)
    job.end(JobState.FAILED, reason="worker-1 failed")
    assert send(job.run).is_complete
    # And once more from the very beginning, as if the cursor were lost.
    CursorFile(job.run, 0).path.unlink()
    assert send(job.run).is_complete

    assert [row["_step"] for row in stored.history] == [0, 1, 2, 3, 4]
    assert [(row["loss"], row["rsctl/step"]) for row in stored.history if "loss" in row][:2] == [
        (4.0, 7),
        (2.0, 8),
    ]
    assert math.isnan(stored.history[2]["loss"])
    assert (stored.history[3]["loss/worker-1"], stored.history[4]["loss"]) == (3.0, 1.0)
    first, second = (row["_timestamp"] for row in stored.history[:2])
    assert second - first == 1.0
    assert {name: stored.parameters[name] for name in PARAMETERS} == PARAMETERS
    assert stored.parameters["rsctl.run"] == "job-a"
    assert (stored.values["rsctl/state"], stored.values["run.time"]) == ("failed", 45.0)
    assert stored.values["rsctl/reason"] == "worker-1 failed"
    assert (stored.is_complete, stored.exit_code) == (True, 1)
    assert stored.files["job.yaml"].decode() == SPEC
    assert b"<html" in stored.files["report.html"]
    assert json.loads(stored.files["result.json"])["samples"]["run.time"] == 45.0
    kept = [*home().rglob("*"), *tmp_path.rglob("*")]
    assert not [file for file in kept if file.is_file() and KEY.encode() in file.read_bytes()]


def test_no_metrics_are_joined(server: WandbServer, send: Send) -> None:
    """W&B's own names begin with an underscore. Without a server in the job, W&B's client knows."""
    job = TrackedJob(PlannedTracker(kind="wandb", location="team/proj"))
    for name in ("loss", "_loss", "__loss"):
        job.log([1.0], name=name)
    job.end(JobState.SUCCEEDED)
    assert send(job.run, WANDB_BASE_URL=server.url).is_complete
    rows = [{name for name in row if "loss" in name} for row in server.runs["job-a"].history]
    assert rows == [{"loss"}, {"rsctl/_loss"}, {"rsctl/__loss"}]


def test_a_server_that_is_down_or_refuses_gets_it_later(server: WandbServer, send: Send) -> None:
    down = job_for(f"http://127.0.0.1:{free_port()}", "job-b")
    down.end()
    assert send(down.run).problem
    job = job_for(server.url)
    job.log([1.0])
    job.end()
    server.refuses = 403
    assert send(job.run).problem == "the W&B server did not accept the run's values"
    server.refuses = None
    assert send(job.run).is_complete
    stored = server.runs["job-a"]
    assert [row["loss"] for row in stored.history] == [1.0]
    assert (stored.is_complete, stored.exit_code) == (True, 0)


@pytest.mark.parametrize(
    ("status", "message", "remedy"),
    [
        # https://github.com/wandb/wandb/issues/9620
        (401, "user is not logged in", "set WANDB_API_KEY to a key of this server"),
        # https://github.com/wandb/wandb/issues/8609
        (403, "permission denied", "check that the user of WANDB_API_KEY may write to team/proj"),
        # https://github.com/wandb/wandb/issues/2484
        (404, "entity team not found during upsertBucket", "check the entity of team/proj"),
    ],
)
def test_a_run_that_the_server_refuses(
    server: WandbServer, send: Send, status: int, message: str, remedy: str
) -> None:
    job = job_for(server.url)
    job.end()
    server.refuses_run = (status, message)
    problem = send(job.run).problem or ""
    assert message in problem
    assert problem.endswith(f" ({remedy})")


def test_a_key_is_not_sent_in_clear(send: Send) -> None:
    job = job_for("http://wandb.example")
    problem = send(job.run).problem or ""
    assert "would send credentials unencrypted over the network" in problem
    assert KEY not in problem


@pytest.mark.parametrize(("mode", "is_kept"), [("offline", True), ("disabled", False)])
def test_a_mode_without_a_server(tmp_path: Path, mode: str, is_kept: bool) -> None:
    """Nothing answers at the address: what is to be sent later lies in the run's folder."""
    job = job_for(f"http://127.0.0.1:{free_port()}", f"job-{mode}")
    job.log([4.0, 2.0], step=7)
    job.end()
    environ = {k: value for k, value in os.environ.items() if not k.startswith("WANDB_")}
    environ |= {"WANDB_MODE": mode, "HOME": str(tmp_path), "WANDB_ERROR_REPORTING": "false"}
    cursor = send_by(None, job.run, environ)
    assert (cursor.problem, cursor.is_complete) == (None, True)
    folder = home() / "runs" / job.run / "tracking"
    found = list(folder.glob(f"wandb/offline-run-*-{job.run}/run-{job.run}.wandb"))
    assert bool(found) is is_kept
