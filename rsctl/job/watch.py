"""The type of the job spec for rules over metrics."""

from typing import TYPE_CHECKING, Annotated, Literal, Optional, Union

import msgspec
from msgspec import Meta

from rsctl.job.metric import MetricName
from rsctl.job.units import Bound, Duration


class WatchRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule over a metric without its `for`, which is not a valid name of a field in Python."""

    metric: Annotated[MetricName, Meta(description="The metric that the rule is about.")]
    when: Annotated[
        Optional[Literal["nan"]],
        Meta(description="nan: the value is not a number, or is infinite."),
    ] = None
    below: Annotated[
        Optional[Bound],
        Meta(
            description="The value is less than this number, or than a part of the metric's own "
            "median so far, such as 80% of its median; of a negative median it is as far below."
        ),
    ] = None
    above: Annotated[
        Optional[Bound],
        Meta(description="The value is greater than this number, or than such a part."),
    ] = None
    do: Annotated[
        Literal["notify", "fail"],
        Meta(description="notify: a finding only. fail: end the job."),
    ] = "notify"

    @property
    def conditions(self) -> list[str]:
        """The keys that are given of when, below and above."""
        return [name for name in ("when", "below", "above") if getattr(self, name) is not None]

    @property
    def duration(self) -> Union[int, Duration]:
        """The key `for`: a number of values in a row, or seconds."""
        held: Union[int, Duration] = getattr(self, "for")
        return held


_For = Annotated[
    Union[Annotated[int, Meta(ge=1, le=100_000)], Duration],
    Meta(
        description="For how many values in a row, such as 3, or for how long, such as 5m, "
        "the condition holds before rsctl acts."
    ),
]

if TYPE_CHECKING:

    class Watch(WatchRule, frozen=True, forbid_unknown_fields=True):
        """A rule over a metric: exactly one of when, below and above."""

else:
    Watch = msgspec.defstruct(
        "Watch",
        [("for", _For, 1)],
        bases=(WatchRule,),
        module=__name__,
        namespace={"__doc__": "A rule over a metric: exactly one of when, below and above."},
        frozen=True,
        forbid_unknown_fields=True,
    )
