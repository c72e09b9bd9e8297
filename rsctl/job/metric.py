"""The type of the job spec for metrics: numbers to read from the log."""

from typing import Annotated, Literal, Optional

import msgspec
from msgspec import Meta

from rsctl.job.options_common import Text
from rsctl.job.units import Regex, Warmup

MetricName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_./:=()@%+-]*$")]


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number to read from the log."""

    regex: Annotated[
        Optional[Regex],
        Meta(
            description="Regular expression; its first group, or the group named `value`, is the "
            "number, and a group named `step` the step. Default: the script logs the "
            "metric by this name."
        ),
    ] = None
    goal: Annotated[
        Optional[Literal["min", "max"]],
        Meta(description="Whether a smaller or a larger value is better."),
    ] = None
    unit: Annotated[
        Optional[Text],
        Meta(
            description="Unit to show, such as samples/s. rsctl ignores values that the log has in "
            "another scale of the unit, such as ms in place of s."
        ),
    ] = None
    warmup: Annotated[
        Warmup,
        Meta(
            description="The start of a run that does not count in its sample: `20 steps`, `30s` "
            "after the first value, or auto, which looks for the end of the transient."
        ),
    ] = Warmup("auto")
    aggregate: Annotated[
        Literal["median", "mean", "last", "min", "max", "p95"],
        Meta(description="How the values of the steady part become the run's sample."),
    ] = "median"
