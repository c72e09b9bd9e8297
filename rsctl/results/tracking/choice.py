"""The choice of a tracker's client; each imports its library only here."""

from __future__ import annotations

from pathlib import Path

from rsctl.job.tracking import PlannedTracker
from rsctl.runs.tracker import TrackedRun, Tracker


def open_tracker(planned: PlannedTracker, index: int, run: TrackedRun) -> Tracker:
    """The client for a planned tracker, the run's `index`th. Raises RsctlError."""
    if planned.kind == "mlflow":
        from rsctl.results.tracking.mlflow_server import MlflowServer

        return MlflowServer(planned.location, run)
    if planned.kind == "vertex":
        from rsctl.targets.vertex.tracker import VertexExperiment

        return VertexExperiment(planned, run)
    if planned.kind == "wandb":
        from rsctl.results.tracking.wandb_project import WandbProject

        return WandbProject(planned.location, run)
    from rsctl.results.tracking.tensorboard import TensorBoardBucket, TensorBoardFolder

    if "://" in planned.location:
        return TensorBoardBucket(planned, index, run)
    return TensorBoardFolder(Path(planned.location), run)
