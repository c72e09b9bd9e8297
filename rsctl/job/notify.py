"""The spec's `notify:` list: the messages that people get about a run."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from rsctl.job.units import EnvReference

NotifyEvent = Literal["failed", "stalled", "succeeded", "regressed"]

DEFAULT_EVENTS: list[NotifyEvent] = ["failed", "stalled", "regressed"]
"""The events of a receiver that chooses none."""


class Notify(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A receiver of messages, and the events that it gets."""

    url: Annotated[
        EnvReference,
        Meta(
            description=(
                "The variable of your environment that holds a URL of Apprise, such as "
                '"${NOTIFY_URL}". The URL contains credentials, so it cannot be in the file.'
            )
        ),
    ]
    on: Annotated[
        Annotated[list[NotifyEvent], Meta(min_length=1)],
        Meta(
            description="failed: the run failed, or a limit ended it. stalled: it makes no "
            "progress for limits.stall. succeeded: the run succeeded. regressed: rsctl gate found "
            "a regression. Default: failed, stalled, regressed."
        ),
    ] = field(default_factory=lambda: list(DEFAULT_EVENTS))
