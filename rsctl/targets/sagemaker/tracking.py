"""The key `sagemaker` of `tracking:`, an experiment that the job's request names."""

from collections.abc import Iterator
from typing import Annotated, Optional

from msgspec import Meta

from rsctl.findings import Finding, error
from rsctl.job.job import Job
from rsctl.targets.sagemaker.options import sagemaker_options

Experiment = Annotated[
    Annotated[str, Meta(pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,119}$")],
    Meta(
        description="An experiment of SageMaker that exists, in the job's account and region; the "
        "job becomes one of its trial components. On the target sagemaker only."
    ),
]
"""The type of its value."""


def experiment_of(job: Job) -> Optional[str]:
    """The experiment that the job names first; None if it names none."""
    named = (getattr(each, "sagemaker", None) for each in job.tracking)
    return next(filter(None, named), None)


def experiment_findings(job: Job, value: str, path: str) -> Iterator[Finding]:
    """Errors for a second experiment: a request can name only one."""
    if sagemaker_options(job).experiment:
        message = "targets.sagemaker.experiment already sets the job's experiment"
        yield error("tracking", message, "keep one of the two", path)
    if value != experiment_of(job):
        message = "a job can belong to only one experiment of SageMaker"
        yield error("tracking", message, "remove the others", path)
