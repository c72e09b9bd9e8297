"""MLflow, by its own client against a real server, both from an environment of their own."""

from __future__ import annotations

import json
import math
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from rsctl.findings import JobState
from rsctl.job.tracking import PlannedTracker
from rsctl.results.tracking.background import CLIENT_SETTINGS
from rsctl.results.tracking.cursor import Cursor, CursorFile
from tests.kit.polling import wait_until
from tests.kit.preloaded import Preloaded
from tests.results.tracking.clients import PYTHON, needs_trackers, send_by
from tests.results.tracking.conftest import TrackedJob
from tests.results.tracking.server import SilentServer, free_port

pytestmark = needs_trackers

QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true"}

Read = Callable[[], list[dict[str, Any]]]
Send = Callable[..., Cursor]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an MLflow server with an empty database."""
    folder = tmp_path_factory.mktemp("mlflow")
    port = free_port()
    process = subprocess.Popen(
        [PYTHON, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
         "--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
         "--artifacts-destination", str(folder / "artifacts")],
        # Without the processes that would evaluate models: each of them imports MLflow.
        env={**os.environ, **QUIET, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
             "PATH": f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _answers(url), "the MLflow server", seconds=200)
        yield url
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preloaded]:
    """Runs programs without the time that importing MLflow's client takes."""
    modules = ("mlflow", "mlflow.entities", "matplotlib.figure")
    folder = tmp_path_factory.mktemp("clients")
    with Preloaded(PYTHON, folder, *modules, environ=os.environ | QUIET) as started:
        yield started


@pytest.fixture
def read(server: str, clients: Preloaded) -> Read:
    """All runs of the server, by MLflow's client."""

    def call() -> list[dict[str, Any]]:
        printed = clients.run(
            "tests.results.tracking.read_mlflow", server, environ=os.environ | QUIET
        )
        found: list[dict[str, Any]] = json.loads(printed)
        return found

    return call


@pytest.fixture
def send(clients: Preloaded) -> Send:
    """Send what there is of a run, as `rsctl track` does; how far it came."""

    def call(
        run: str, seconds: int = 100, retries: int = 0, *, by_a_fresh_interpreter: bool = False
    ) -> Cursor:
        environ = os.environ | CLIENT_SETTINGS
        environ |= {
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": f"{retries}",
            "MLFLOW_HTTP_REQUEST_TIMEOUT": f"{seconds}",
        }
        return send_by(None if by_a_fresh_interpreter else clients, run, environ)

    return call


def test_parameters_metrics_and_the_result_are_there_once(
    server: str, read: Read, send: Send
) -> None:
    job = TrackedJob(PlannedTracker(kind="mlflow", location=server), "job-m1")
    job.log([4.0, 2.0], step=7)
    job.log([math.nan, math.inf])
    job.log([3.0], replica="worker-1")
    assert send(job.run, by_a_fresh_interpreter=True).problem is None
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
    (run,) = [run for run in read() if run["name"] == "job-m1"]
    assert (run["status"], run["experiment"]) == ("FAILED", "job")
    assert run["end"] - run["start"] == 50_000
    assert run["files"] == ["job.yaml", "report.html", "result.json"]
    assert run["params"]["run.args.lr"] == "0.1"
    assert run["tags"]["rsctl.reason"] == "worker-1 failed"
    loss = sorted(run["metrics"]["loss"])
    assert [step for step, *_ in loss] == [0, 1, 7, 8, 11]
    assert [value for _, _, value in loss if "inf" not in value][:1] == ["nan"]
    assert [value for step, _, value in loss if step >= 7] == ["4.0", "2.0", "1.0"]
    assert [time - run["start"] for _, time, _ in loss] == [13_000, 14_000, 11_000, 12_000, 16_000]
    assert [value for *_, value in run["metrics"]["loss/worker-1"]] == ["3.0"]
    assert [value for *_, value in run["metrics"]["run.time"]] == ["45.0"]


def test_no_metrics_are_joined_and_no_steps_are_changed(
    server: str, read: Read, send: Send
) -> None:
    parameters = {"long": "x" * 501, "empty": "", **{f"p{number}": number for number in range(99)}}
    job = TrackedJob(PlannedTracker(kind="mlflow", location=server), "job-m2", parameters)
    names = ["a//b", "a__b", "n" * 260 + "1", "n" * 260 + "2"]
    names += ["acc@1", "acc(1)", "acc%", "a+b=c", "a_b:c/d.e-f"]
    for name in names:
        job.log([1.0], name=name)
    job.log([1.0, 2.0], step=-2)
    job.end(JobState.SUCCEEDED)
    assert send(job.run).is_complete
    (run,) = [run for run in read() if run["name"] == "job-m2"]
    assert sorted(step for step, *_ in run["metrics"]["loss"]) == [-2, -1]
    assert (len(run["params"]), run["params"]["p98"]) == (101, "98")
    assert (run["params"]["long"], run["params"]["empty"]) == ("x" * 500, "-")
    sent = [name for name in run["metrics"] if name[0] in "an"]
    assert len(sent) == 9
    assert {"a__b", "a_b:c/d.e-f"} < set(sent)


def test_a_server_that_is_down_or_silent_gets_it_later(server: str, read: Read, send: Send) -> None:
    job = TrackedJob(PlannedTracker(kind="mlflow", location=server), "job-m2")
    job.log([1.0])
    job.end()
    with SilentServer() as silent:
        for port in (free_port(), silent.port):
            address = f"http://127.0.0.1:{port}"
            down = TrackedJob(PlannedTracker(kind="mlflow", location=address), f"job-{port}")
            down.end()
            assert send(down.run, seconds=3).problem
    assert send(job.run).is_complete
    (run,) = [run for run in read() if run["name"] == "job-m2"]
    assert run["status"] == "FINISHED"


@contextmanager
def refusing(status: int, header: str, value: str, answer: str = "") -> Iterator[str]:
    """A server with one answer."""

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header(header, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        do_POST = do_GET

        def log_message(self, *words: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_server_that_asks_for_a_pause_of_an_hour_is_tried_again_by_rsctl(send: Send) -> None:
    """Its client would sleep for that hour, and everything else of the run would wait."""
    with refusing(429, "Retry-After", "3600") as address:
        job = TrackedJob(PlannedTracker(kind="mlflow", location=address), "job-m4")
        job.end()
        assert "429" in (send(job.run, retries=1).problem or "")


def test_a_server_that_asks_for_credentials(send: Send) -> None:
    """The answer is from mlflow/server/auth of MLflow 3.17.2, `make_basic_auth_response`."""
    answer = "You are not authenticated. Please see https://www.mlflow.org/docs/latest/auth/"
    with refusing(401, "WWW-Authenticate", 'Basic realm="mlflow"', answer) as address:
        job = TrackedJob(PlannedTracker(kind="mlflow", location=address), "job-m3")
        job.end()
        problem = send(job.run).problem or ""
    assert "401" in problem
    assert problem.endswith(
        " (set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD)"
    )


def test_a_token_is_not_sent_in_clear(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t0ken")
    job = TrackedJob(PlannedTracker(kind="mlflow", location="http://mlflow.example"))
    problem = send(job.run).problem or ""
    assert "would send credentials unencrypted over the network" in problem
    assert "t0ken" not in problem
