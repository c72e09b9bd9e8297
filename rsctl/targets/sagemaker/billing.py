"""How SageMaker bills a training job. Pure.

`MaxRuntimeInSeconds` is the time of all attempts together, and a job that is stopped has 120 s
more to save its model (botocore's model, `StoppingCondition`). Spot machines are billed at the
price on demand, for fewer seconds: DescribeTrainingJob has BillableTimeInSeconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsctl.estimate.costs.billing import Billing
from rsctl.targets.sagemaker.request import DEFAULT_TIMEOUT, STOPPING_SECONDS

_SPOT = "at the on-demand price; for spot machines SageMaker bills fewer seconds"


def billing_of(request: Mapping[str, Any]) -> Billing:
    """The billing of a request for a plan."""
    body = request.get("body")
    fields: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    stopping = fields.get("StoppingCondition")
    seconds = stopping.get("MaxRuntimeInSeconds") if isinstance(stopping, Mapping) else None
    region = request.get("region")
    return Billing(
        region=region if isinstance(region, str) else None,
        seconds=float(seconds) if isinstance(seconds, (int, float)) else float(DEFAULT_TIMEOUT),
        grace=STOPPING_SECONDS,
        note=_SPOT if fields.get("EnableManagedSpotTraining") is True else None,
    )
