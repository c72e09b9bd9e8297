"""The key `vertex` of `tracking:`, an experiment of Vertex AI."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from rsctl.findings import Finding, error
from rsctl.job.job import Job
from rsctl.job.tracking import PlannedTracker
from rsctl.targets.vertex.options import vertex_options

Experiment = Annotated[
    Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,72}$")],
    Meta(
        description="An experiment of Vertex AI, in targets.vertex.project and region; rsctl "
        "creates it if it does not exist."
    ),
]
"""The type of its value."""


def experiment_findings(job: Job, value: str, path: str) -> Iterator[Finding]:
    """An error for a job without the project or region of the experiment."""
    options = vertex_options(job)
    if not (options.project and options.first_region):
        message = "the project and region of the experiment are unknown"
        remedy = "set targets.vertex.project and targets.vertex.region"
        yield error("tracking", message, remedy, path)


def planned_experiment(job: Job, value: str) -> PlannedTracker:
    """The experiment with its project and region."""
    options = vertex_options(job)
    return PlannedTracker(
        kind="vertex", location=value, project=options.project, region=options.first_region
    )
