"""The progress of each tracker of a run, in the run's folder.

tracking/sender.lock    held by the one process that sends
tracking/N.json         the cursor of the Nth tracker, see `Cursor`
tracking/N.events       further data of the Nth tracker, such as TensorBoard's for a bucket
tracking/files/         files for trackers, see `run_files`
tracking/log            the output of sending processes
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

import msgspec

from rsctl.atomic_file import read_json
from rsctl.job.tracking import PlannedTracker, TrackingPlan
from rsctl.runs.folder import RunFolder
from rsctl.runs.home import private_folder
from rsctl.runs.records import RunRecord


class Cursor(msgspec.Struct, kw_only=True):
    """The position of a tracker. `row` is the last row of the store's metrics; `steps` are the next
    steps of metrics whose log has none; `has_headlines` is whether the series of metrics that the
    chief does not log were sent; `state` is the tracker's own. `problem` is why the last call
    failed, None if it succeeded, `tried` its time.
    """

    has_begun: bool = False
    row: int = 0
    steps: dict[str, int] = {}
    has_headlines: bool = False
    state: dict[str, Any] = {}
    ended_as: Optional[str] = None
    is_complete: bool = False
    problem: Optional[str] = None
    tried: Optional[str] = None


class CursorFile:
    """The cursor of one tracker of a run; each write is complete or has no effect."""

    def __init__(self, run: str, index: int) -> None:
        self.path = tracking_folder(run) / f"{index}.json"

    def read(self) -> Cursor:
        """The cursor; a new one if there is none, or it is damaged."""
        return read_json(self.path, Cursor) or Cursor()

    def write(self, cursor: Cursor) -> None:
        """Replace it. Raises OSError."""
        fresh = self.path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(cursor))
        os.replace(fresh, self.path)


def tracking_folder(run: str) -> Path:
    """The folder with the state of a run's trackers."""
    return RunFolder(run).path / "tracking"


def lock_path(run: str) -> Path:
    """The lock of the process that sends a run."""
    return tracking_folder(run) / "sender.lock"


def make_tracking_folder(run: str) -> Path:
    """Make it if it does not exist; for its owner only. Raises OSError."""
    folder = tracking_folder(run)
    private_folder(folder)
    return folder


def plan_of(run: RunRecord) -> TrackingPlan | None:
    """The data of a run for trackers; None if it has none."""
    plan = run.plan.get("tracking")
    return msgspec.convert(plan, TrackingPlan) if plan else None


def trackers_of(run: RunRecord) -> list[tuple[PlannedTracker, Cursor]]:
    """The trackers of a run, and how far they are."""
    plan = plan_of(run)
    trackers = plan.trackers if plan else []
    return [(t, CursorFile(run.run, index).read()) for index, t in enumerate(trackers)]


def unfinished(run: RunRecord) -> list[tuple[PlannedTracker, Cursor]]:
    """The trackers of a run that lack something, and how far they are."""
    return [(tracker, cursor) for tracker, cursor in trackers_of(run) if not cursor.is_complete]
