"""TensorBoard: event files in a folder a run, on this machine or in a bucket.

A file on this machine grows; data of a killed process beyond its cursor is cut off and written
again. An object in a bucket cannot grow, so it is replaced by a longer one, from a copy in the
run's folder, until it has a megabyte; then the next one begins. TensorBoard reads the files of a
folder in the order of their names.

The result stands at the end. What comes after it takes its place, and the result is written again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rsctl.clients.endpoints import Endpoints
from rsctl.job.tracking import PlannedTracker
from rsctl.results.tracking.cursor import tracking_folder
from rsctl.results.tracking.event_file import (
    as_code,
    as_table,
    scalar_record,
    text_record,
    version_record,
)
from rsctl.runs.tracker import DataGone, MetricPoint, Result, State, TrackedRun

_SEGMENT_BYTES = 1 << 20
_BUCKET_SECONDS = 15.0
_BEFORE_RESULT = "before_result"


class _EventFiles:
    """See Tracker: event files, to which `_add` adds records."""

    takes_files = False

    def __init__(self, run: TrackedRun) -> None:
        self._run = run

    def begin(self, state: State) -> None:
        """See Tracker."""
        self._add(first_records(self._run), state)

    def send(self, points: Sequence[MetricPoint], state: State) -> None:
        """See Tracker."""
        _drop_result(state)
        self._add(records(points), state)

    def end(self, result: Result, state: State) -> None:
        """See Tracker."""
        _drop_result(state)
        state[_BEFORE_RESULT] = self._add(last_records(result), state)

    def _add(self, data: bytes, state: State) -> int:
        """Write records, the same if called again; returns where in their file they begin."""
        raise NotImplementedError


class TensorBoardFolder(_EventFiles):
    """See Tracker: the folder of a run below one on this machine."""

    seconds_between = 1.0

    def __init__(self, folder: Path, run: TrackedRun) -> None:
        super().__init__(run)
        self._file = folder / run.run.run / event_file_name(run, 0)

    def begin(self, state: State) -> None:
        """See Tracker."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        super().begin(state)

    def _add(self, data: bytes, state: State) -> int:
        size = state.get("size", 0)
        if size and not (self._file.exists() and self._file.stat().st_size >= size):
            raise DataGone(f"{self._file} was removed or cut")
        return append(self._file, data, state)


class TensorBoardBucket(_EventFiles):
    """See Tracker: the folder of a run below a gs:// or s3:// one."""

    seconds_between = _BUCKET_SECONDS

    def __init__(self, planned: PlannedTracker, index: int, run: TrackedRun) -> None:
        from rsctl.clients.storage import ObjectUrl
        from rsctl.clients.storage.buckets import open_bucket

        super().__init__(run)
        folder = ObjectUrl.parse(planned.location).name.strip("/")
        self._folder = f"{folder}/{run.run.run}" if folder else run.run.run
        endpoints = Endpoints.of_environment()
        self._bucket = open_bucket(planned.location, endpoints, planned.region, "tracking")
        self._copy = tracking_folder(run.run.run) / f"{index}.events"

    def _add(self, data: bytes, state: State) -> int:
        """Replace the last object by a longer one, or begin the next."""
        if state.get("size", 0) > _SEGMENT_BYTES:
            state.update(size=0, segment=state.get("segment", 0) + 1)
            append(self._copy, version_record(self._run.created), state)
        before = append(self._copy, data, state)
        name = f"{self._folder}/{event_file_name(self._run, state.get('segment', 0))}"
        self._bucket.replace(name, self._copy.read_bytes(), "application/octet-stream")
        return before


def _drop_result(state: State) -> None:
    """Let the next write replace a result that was written before."""
    if _BEFORE_RESULT in state:
        state["size"] = state.pop(_BEFORE_RESULT)


def event_file_name(run: TrackedRun, segment: int) -> str:
    """A name by which TensorBoard knows and sorts the file."""
    return f"events.out.tfevents.{int(run.created):010}.{run.run.run}.{segment:05}"


def first_records(run: TrackedRun) -> bytes:
    """The description of the run."""
    about = as_table({**run.tags, **run.parameters}.items())
    parts = [version_record(run.created), text_record(run.created, "rsctl/parameters", about)]
    if run.run.spec is not None:
        parts.append(text_record(run.created, "rsctl/job", as_code(run.run.spec)))
    return b"".join(parts)


def records(points: Sequence[MetricPoint]) -> bytes:
    """The values of metrics."""
    return b"".join(scalar_record(p.seconds, p.step, p.tag, p.value) for p in points)


def last_records(result: Result) -> bytes:
    """How the run ended."""
    fields = {"state": result.state.value, **result.texts, **result.samples}
    data = text_record(result.seconds, "rsctl/result", as_table(fields.items()))
    samples = {n: v for n, v in result.samples.items() if n.startswith("run.")}
    return data + b"".join(scalar_record(result.seconds, 0, n, v) for n, v in samples.items())


def append(file: Path, data: bytes, state: State) -> int:
    """Write after the data recorded in the state, over later data of a killed process.

    Returns where these data begin. Raises OSError.
    """
    size = state.get("size", 0)
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with os.fdopen(opened, "wb") as out:
        out.truncate(size)
        out.seek(size)
        out.write(data)
    state["size"] = size + len(data)
    return int(size)
