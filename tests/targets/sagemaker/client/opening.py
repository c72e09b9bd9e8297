"""Jobs of the fake, opened, and how they are."""

from __future__ import annotations

from typing import Any

from rsctl.clients.endpoints import Endpoints
from rsctl.targets.managed.service import JobStatus
from rsctl.targets.sagemaker.client import SageMakerService
from rsctl.targets.sagemaker.job import SageMakerJob

from .fake_sagemaker import BODY, RUN, FakeSageMaker, described_job

URL = f"sagemaker://us-east-1/{RUN}"


def opened() -> SageMakerJob:
    """The run's job."""
    return SageMakerService(Endpoints.of_environment()).open(URL)


def status(sagemaker: FakeSageMaker, primary: str, secondary: str, **more: Any) -> JobStatus:
    """How a job is that the service describes like this."""
    changes = {"TrainingJobStatus": primary, "SecondaryStatus": secondary, **more}
    sagemaker.jobs[RUN] = described_job(BODY, **changes)
    return opened().status()
