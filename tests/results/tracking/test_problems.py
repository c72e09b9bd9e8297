"""What is shown of a tracker's problem, how much is sent at once, and with which files."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from rsctl.findings import JobState
from rsctl.job.tracking import PlannedTracker, TrackingPlan
from rsctl.results.tracking import choice
from rsctl.results.tracking.cursor import make_tracking_folder
from rsctl.results.tracking.run_files import run_files
from rsctl.results.tracking.sender import Sender
from rsctl.runs.folder import RunFolder
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Failure, MetricEvent, StateEvent
from rsctl.runs.tracker import MetricPoint, Result, State, one_line
from tests.results.tracking.conftest import SPEC, TrackedJob, at


def test_the_status_at_the_end_of_a_long_problem_is_shown() -> None:
    url = "/api/2.0/mlflow/experiments/get-by-name?experiment_name=" + "x" * 600
    problem = (
        "API request to http://mlflow:5000 failed with exception\n"
        f"HTTPConnectionPool: Max retries exceeded with url: {url} "
        "(Caused by ResponseError('too many 503 error responses'))"
    )
    shown = one_line(problem)
    assert shown.startswith("API request to http://mlflow:5000 failed with exception HTTP")
    assert shown.endswith("(Caused by ResponseError('too many 503 error responses'))")
    assert len(shown) <= 480
    assert one_line("short: 404\nNot Found") == "short: 404 Not Found"


def sender_of(store: Store, run: str, url: str, folder: Path) -> Sender:
    """Of a run on Vertex AI that has failed."""
    tracker = PlannedTracker(kind="tensorboard", location=str(folder / "tb"))
    plan = TrackingPlan(trackers=[tracker], parameters={})
    store.add(
        RunRecord(
            run=run,
            name="job",
            target="vertex",
            url=url,
            state=JobState.QUEUED,
            created=at(0),
            plan={"tracking": msgspec.to_builtins(plan)},
            metrics_spec={},
        )
    )
    RunFolder(run).path.mkdir(parents=True)
    make_tracking_folder(run)
    refused = StateEvent(time=at(2), state=JobState.FAILED, reason="refused: quota")
    store.record(run, refused)
    return Sender(store, run, 0, tracker)


def test_a_refused_submission_is_sent_to_its_end(tmp_path: Path) -> None:
    """No job was created, so that no log of a cloud will ever come."""
    sender = sender_of(Store(), "job-refused", "vertex://job-refused", tmp_path)
    assert not sender.step()
    assert sender.cursor.is_complete


def test_a_run_in_a_cloud_is_sent_to_the_end_of_its_log(tmp_path: Path) -> None:
    """Which comes after the end of the job."""
    store, url = Store(), "vertex://projects/p/locations/us-central1/customJobs/1"
    sender = sender_of(store, "job-a", url, tmp_path)
    for progress in (b'{"is_complete": false}', b"{}"):
        store.keep("job-a", [], progress, [])
        sender.step()
        assert not sender.cursor.is_complete
    store.keep("job-a", [], b'{"is_complete": true}', [])
    assert not sender.step()
    assert sender.cursor.is_complete


class Counting:
    """A tracker that counts the values of each call."""

    seconds_between, takes_files = 0.0, False

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []

    def begin(self, state: State) -> None:
        pass

    def send(self, points: Sequence[MetricPoint], state: State) -> None:
        (tag,) = {point.tag for point in points}
        self.sent.append((tag, len(points)))

    def end(self, result: Result, state: State) -> None:
        self.sent.append(("end", 0))


def test_a_thousand_values_are_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the series of a metric that the chief does not log, too."""
    counting = Counting()
    monkeypatch.setattr(choice, "open_tracker", lambda *_: counting)
    job = TrackedJob(PlannedTracker(kind="mlflow", location="https://x"))
    values = [
        MetricEvent(time=at(20 + n / 1000), replica="worker-1", name="loss", value=1.0, step=n)
        for n in range(2001)
    ]
    job.store.add_metrics(job.run, values)
    job.end()
    job.send()
    series = [("loss/worker-1", size) for size in (1000, 1000, 1)]
    assert counting.sent == [*series, *(("loss", size) for _, size in series), ("end", 0)]


def test_the_files_for_trackers_are_made_once() -> None:
    job = TrackedJob(PlannedTracker(kind="mlflow", location="https://x"))
    job.store.record_failure(job.run, Failure(replica="worker-1", time=at(49), exit_code=1))
    job.end(JobState.FAILED, "why")
    run = job.store.get(job.run)
    assert run is not None
    spec, report, result = run_files(job.store, run, {"loss": math.nan, "run.time": 45.0})
    assert (spec.name, spec.read_text()) == ("job.yaml", SPEC)
    assert (report.name, "Run job-a" in report.read_text()) == ("report.html", True)
    assert (result.name, json.loads(result.read_text())) == (
        "result.json",
        {
            **{"run": "job-a", "name": "job", "target": "process", "url": "process://job-a"},
            **{"state": "failed", "exit_code": 1, "reason": "why", "attempt": 1},
            **{"created": at(0), "started": at(5), "ended": at(50), "settings": []},
            "first_failure": msgspec.to_builtins(run.first_failure),
            "samples": {"loss": "nan", "run.time": 45.0},
        },
    )
    before = result.read_bytes()
    assert run_files(job.store, run, {}) == [spec, report, result]
    assert result.read_bytes() == before
    made_in_python = replace(run, run="job-b", spec=None)
    make_tracking_folder("job-b")
    assert [file.name for file in run_files(job.store, made_in_python, {})] == [
        *("report.html", "result.json")
    ]
