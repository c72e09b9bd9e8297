"""The choice of a tracker's client; each imports its library only here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.tracking import PlannedTracker
from rsctl.runs.tracker import TrackedRun, Tracker
from rsctl.target_info import import_object, target_info


def open_tracker(planned: PlannedTracker, index: int, run: TrackedRun) -> Tracker:
    """The client for a planned tracker, the run's `index`th. Raises RsctlError."""
    if planned.kind == "mlflow":
        from rsctl.results.tracking.mlflow_server import MlflowServer

        return MlflowServer(planned.location, run)
    if planned.kind == "wandb":
        from rsctl.results.tracking.wandb_project import WandbProject

        return WandbProject(planned.location, run)
    if planned.kind != "tensorboard":
        client = _client_of(planned.kind)
        return client(planned, run)
    from rsctl.results.tracking.tensorboard import TensorBoardBucket, TensorBoardFolder

    if "://" in planned.location:
        return TensorBoardBucket(planned, index, run)
    return TensorBoardFolder(Path(planned.location), run)


def _client_of(target: str) -> Callable[[PlannedTracker, TrackedRun], Tracker]:
    """The client of a target's own service. Raises RsctlError if the target is not installed."""
    tracker = target_info(target).tracker
    if tracker is None or tracker.client is None:
        message = f"target {target} has no service that a run can be sent to"
        remedy = "install the version of the package with which the run was submitted"
        raise RsctlError(ExitCode.ENVIRONMENT, error("tracking", message, remedy))
    client: Callable[[PlannedTracker, TrackedRun], Tracker] = import_object(tracker.client)
    return client
