"""Checks of the spec's `tracking:` list, and what it takes to reach each service."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec

from rsctl.findings import SECRET, Finding, error
from rsctl.job.job import Job
from rsctl.job.tracking import PlannedTracker, Tracking, experiment_of
from rsctl.targets.sagemaker.options import sagemaker_options
from rsctl.targets.vertex.options import vertex_options

_CREDENTIALS = {
    "mlflow": "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
    "wandb": "WANDB_API_KEY",
}
"""Keys whose values are addresses, and what their credentials are given by instead."""


def check_tracking(job: Job) -> Iterator[Finding]:
    """Findings about the list of trackers of a job."""
    seen: dict[str, int] = {}
    for index, tracking in enumerate(job.tracking):
        path = f"tracking[{index}]"
        yield from _credential_findings(tracking, path)
        if len(tracking.given) != 1:
            message = "an item configures one service: " + (
                " and ".join(tracking.given) or "the item names no service"
            )
            remedy = "write a list of mappings with one key: [{tensorboard: DIR}, {mlflow: URI}]"
            yield error("tracking", message, remedy, path)
            continue
        yield from _experiment_findings(tracking, job, path)
        key = msgspec.json.encode(planned_tracker(tracking, job)).decode()
        if key in seen:
            message = f"this duplicates tracking[{seen[key]}]"
            yield error("tracking", message, "remove one of the two", path)
        seen.setdefault(key, index)


def _credential_findings(tracking: Tracking, path: str) -> Iterator[Finding]:
    """Addresses with a user or a password in them."""
    for key, variables in _CREDENTIALS.items():
        if urlsplit(getattr(tracking, key) or "").username is not None:
            message = "the address contains a user or a password, which would be saved and shown"
            yield error(SECRET, message, f"remove it, and set {variables}", f"{path}.{key}")


def _experiment_findings(tracking: Tracking, job: Job, path: str) -> Iterator[Finding]:
    """What the experiments of Vertex AI and SageMaker need of the job."""
    options = vertex_options(job)
    if tracking.vertex and not (options.project and options.first_region):
        message = "the project and region of the experiment are unknown"
        remedy = "set targets.vertex.project and targets.vertex.region"
        yield error("tracking", message, remedy, f"{path}.vertex")
    if tracking.sagemaker and sagemaker_options(job).experiment:
        message = "targets.sagemaker.experiment already sets the job's experiment"
        yield error("tracking", message, "keep one of the two", f"{path}.sagemaker")
    if tracking.sagemaker and tracking.sagemaker != experiment_of(job.tracking):
        message = "a job can belong to only one experiment of SageMaker"
        yield error("tracking", message, "remove the others", f"{path}.sagemaker")


def check_tracking_on(job: Job, target: str) -> Iterator[Finding]:
    """Findings about trackers that only some targets have."""
    for index, tracking in enumerate(job.tracking):
        if tracking.sagemaker and target != "sagemaker":
            message = f"target {target}: only SageMaker jobs can belong to its experiments"
            remedy = "remove it, or submit with --target sagemaker"
            yield error("unsupported", message, remedy, f"tracking[{index}].sagemaker")


def planned_tracker(tracking: Tracking, job: Job) -> PlannedTracker:
    """A tracker with all that it takes to reach it."""
    kind = tracking.given[0]
    location = str(getattr(tracking, kind))
    project = region = None
    if kind == "vertex":
        project, region = vertex_options(job).project, vertex_options(job).first_region
    elif location.startswith("s3://"):
        region = sagemaker_options(job).first_region
    return PlannedTracker(kind=kind, location=location, project=project, region=region)
