"""The spec's `gate:` block: by what a benchmark job is judged."""

from typing import Annotated, Optional

import msgspec
from msgspec import Meta, field

from rsctl.job.units import Regression

BaselineLocation = Annotated[str, Meta(pattern=r"^\S+$")]
MetricName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_./:=()@%+-]*$")]


class GateBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The baseline of `rsctl gate` for this job, and the allowed regressions."""

    baseline: Annotated[
        Optional[BaselineLocation],
        Meta(
            description="The baseline: a file, gs://…, s3://…, git:REF:PATH, or a bench. "
            "git:origin/main:bench/baseline.json reads it from a branch that the "
            "change cannot edit."
        ),
    ] = None
    max_regression: Annotated[
        dict[MetricName, Regression],
        Meta(
            description="The largest allowed regression of each metric: `5%` of the baseline, or "
            "an amount in the metric's unit."
        ),
    ] = field(default_factory=dict)
    repeat: Annotated[
        Optional[Annotated[int, Meta(ge=1, le=1000)]],
        Meta(description="Number of runs of each cell. Start with 5; the minimum is 3."),
    ] = None
    confirm: Annotated[
        Optional[Annotated[int, Meta(ge=0, le=1000)]],
        Meta(
            description="Number of additional runs of a suspected regression, on fresh machines, "
            "before the gate fails. Default: 0."
        ),
    ] = None
