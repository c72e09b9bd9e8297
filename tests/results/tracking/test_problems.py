"""What is shown of a tracker's problem, and runs that never were a job."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rsctl.findings import JobState
from rsctl.job.tracking import PlannedTracker, TrackingPlan
from rsctl.results.tracking.cursor import make_tracking_folder
from rsctl.results.tracking.sender import Sender
from rsctl.runs.folder import RunFolder
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import StateEvent
from rsctl.runs.tracker import one_line
from tests.results.tracking.conftest import at


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
