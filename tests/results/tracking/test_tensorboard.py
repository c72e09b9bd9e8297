"""Event files, as TensorBoard's own reader finds them: whole, in order, each value once."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from rsctl.findings import JobState
from rsctl.job.tracking import PlannedTracker
from rsctl.results.tracking import tensorboard
from rsctl.results.tracking.event_file import crc32c
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import Failure
from rsctl.runs.tracker import MetricPoint, Result, TrackedRun
from tests.results.tracking.conftest import SPEC, TrackedJob, at

Values = list[tuple[int, float]]


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder)).Reload()


def scalars(found: Any, tag: str) -> Values:
    return [(event.step, event.value) for event in found.Scalars(tag)]


def text(found: Any, tag: str) -> str:
    (event,) = found.Tensors(tag)
    return str(event.tensor_proto.string_val[0].decode())


@pytest.fixture
def job(tmp_path: Path) -> TrackedJob:
    return TrackedJob(PlannedTracker(kind="tensorboard", location=str(tmp_path / "tb")))


def known_run(job: TrackedJob) -> RunRecord:
    found = job.store.get(job.run)
    assert found is not None
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tb" / "job-a"


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


def test_a_run_with_steps_times_and_what_is_not_finite(job: TrackedJob, folder: Path) -> None:
    job.log([4.0, 2.0, math.nan, math.inf, 1e300], step=7)
    job.log([3.0, 1.0], replica="worker-1")
    job.end()
    job.send()
    found = read(folder)
    values = scalars(found, "loss")
    assert values[:2] == [(7, 4.0), (8, 2.0)]
    assert [str(value) for _, value in values[2:]] == ["nan", "inf", "inf"]
    assert found.Scalars("loss")[0].wall_time == pytest.approx(1769860811.0)
    assert scalars(found, "loss/worker-1") == [(0, 3.0), (1, 1.0)]
    assert scalars(found, "run.time") == [(0, 45.0)]
    assert found.FirstEventTimestamp() == pytest.approx(1769860800.0)


def test_a_metric_that_the_chief_does_not_log_has_its_own_series(
    job: TrackedJob, folder: Path
) -> None:
    """The aggregate over the replicas of each step, as everywhere else."""
    job.log([4.0, 2.0], step=1, replica="worker-1")
    job.log([5.0, 3.0], step=1, replica="worker-2")
    job.send()
    job.end()
    job.send()
    found = read(folder)
    assert scalars(found, "loss/worker-2") == [(1, 5.0), (2, 3.0)]
    assert scalars(found, "loss") == [(1, 4.5), (2, 2.5)]


def test_parameters_and_the_result_are_texts_without_markup(job: TrackedJob, folder: Path) -> None:
    with job.store.transaction() as db:
        db.execute('UPDATE runs SET settings=\'["run.args.lr=0.1", "workers.count=2"]\'')
    failure = Failure(replica="worker-1", time=at(49), exit_code=1)
    job.store.record_failure(job.run, failure)
    job.log([2.0])
    job.end(JobState.FAILED, "worker-1 failed\n<script>")
    job.send()
    found = read(folder)
    # blocks of code: nothing in them has a meaning
    assert text(found, "rsctl/parameters").split("\n") == [
        "    rsctl.run: job-a",
        "    rsctl.job: job",
        "    rsctl.target: process",
        "    rsctl.url: process://job-a",
        "    run.args.lr: 0.1",
        "    workers.count: 2",
        "    run.script: <b>|train.py # x",
    ]
    assert text(found, "rsctl/job") == "    " + SPEC.rstrip()[:9] + "\n    " + SPEC.rstrip()[10:]
    assert text(found, "rsctl/result").split("\n") == [
        "    state: failed",
        "    reason: worker-1 failed <script>",
        "    exit_code: 1",
        f"    first_failure: {failure.reason}",
        "    settings: run.args.lr=0.1 workers.count=2",
        "    loss: 2.0",
        "    run.queue: 5.0",
        "    run.first_step: 6.0",
        "    run.time: 45.0",
        "    run.total: 50.0",
    ]


def test_what_comes_later_is_added_and_nothing_twice(job: TrackedJob, folder: Path) -> None:
    job.log([1.0])
    job.send()
    job.send()
    job.log([2.0])
    job.send()
    job.end()
    assert job.send().cursor.is_complete
    before = next(folder.iterdir()).read_bytes()
    assert not job.send().step()
    assert next(folder.iterdir()).read_bytes() == before
    assert scalars(read(folder), "loss") == [(0, 1.0), (1, 2.0)]


def test_what_comes_after_the_end_takes_the_results_place(tmp_path: Path) -> None:
    """The log of a cloud may come whole only later; then the result is sent a second time."""
    job = TrackedJob(PlannedTracker(kind="tensorboard", location=str(tmp_path / "tb")))
    run = TrackedRun(known_run(job), {})
    tracker, state = tensorboard.TensorBoardFolder(tmp_path / "tb", run), dict[str, Any]()
    result = Result(JobState.SUCCEEDED, 50.0, {"run.time": 45.0, "loss": 2.0}, {})
    tracker.begin(state)
    tracker.end(result, state)
    tracker.send([MetricPoint("loss", 3, 40.0, 2.0)], state)
    tracker.end(result._replace(samples={"run.time": 45.0, "loss": 3.0}), state)
    found = read(tmp_path / "tb" / "job-a")
    assert scalars(found, "run.time") == [(0, 45.0)]
    assert scalars(found, "loss") == [(3, 2.0)]
    assert "    loss: 3.0" in text(found, "rsctl/result").split("\n")


def test_what_a_killed_process_has_half_written_is_written_again(
    job: TrackedJob, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.log([1.0])
    job.send()
    job.log([2.0, 3.0])
    with monkeypatch.context() as patch:
        patch.setattr("rsctl.results.tracking.cursor.CursorFile.write", _killed)
        with pytest.raises(KeyboardInterrupt):
            job.send()
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-5])  # and what it has written last is cut
    job.end()
    job.send()
    assert scalars(read(folder), "loss") == [(0, 1.0), (1, 2.0), (2, 3.0)]


@pytest.mark.parametrize("is_all", [True, False])
def test_files_that_were_removed_or_lost_their_end_are_written_again(
    job: TrackedJob, folder: Path, is_all: bool
) -> None:
    """By a user who cleans up while the run is in progress, or by a power failure."""
    job.log([1.0], step=3)
    job.send()
    if is_all:
        shutil.rmtree(folder.parent)
    else:
        (file,) = folder.iterdir()
        file.write_bytes(file.read_bytes()[:-5])
    job.log([2.0])
    assert scalars(read(job.send() and folder), "loss") == [(3, 1.0), (0, 2.0)]
    job.end()
    assert job.send().cursor.is_complete
    assert text(read(folder), "rsctl/parameters")


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


class Objects:
    """A bucket in memory."""

    def __init__(self) -> None:
        self.names: dict[str, bytes] = {}
        self.fails = False

    def replace(self, name: str, data: bytes, content_type: str) -> None:
        self.names[name] = data
        if self.fails:
            raise OSError("the answer was lost")

    def store_below(self, folder: Path) -> Path:
        for name, data in self.names.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return folder


def test_in_a_bucket_a_file_is_replaced_until_it_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = Objects()
    monkeypatch.setattr("rsctl.clients.storage.buckets.open_bucket", lambda *_: bucket)
    monkeypatch.setattr(tensorboard, "_SEGMENT_BYTES", 400)
    job = TrackedJob(PlannedTracker(kind="tensorboard", location="gs://b/logs/"))
    for start in range(0, 30, 5):
        job.log([float(n) for n in range(start, start + 5)], step=start)
        bucket.fails = start == 10
        if bucket.fails:
            with pytest.raises(OSError, match="lost"):
                job.send()
            bucket.fails = False
        job.send()
    job.end()
    job.send()
    assert len(bucket.names) > 2
    assert all(name.startswith("logs/job-a/events.out.tfevents.") for name in bucket.names)
    found = read(bucket.store_below(tmp_path) / "logs" / "job-a")
    assert scalars(found, "loss") == [(n, float(n)) for n in range(30)]
    assert found.Scalars("run.time")
