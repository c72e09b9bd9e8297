"""Stand-ins for Google's Reduction Server, whose image cannot be had: rsctl's own reducers."""

from __future__ import annotations

import re
import secrets
from typing import Any, Literal, NamedTuple

_REDUCER_IMAGE = re.compile(
    r"(us|europe|asia)-docker\.pkg\.dev/vertex-ai-restricted/training/reductionserver([:@].*)?"
)
REDUCERS = 2
"""The number of the pool that reducers are in."""

Kind = Literal["none", "rsctl", "absent"]

NOTES: dict[Kind, str] = {
    "none": "",
    "rsctl": (
        "rsctl emulator: Google's Reduction Server cannot run here; rsctl's own reducers and "
        "binding replace it"
    ),
    "absent": (
        "rsctl emulator: Google's Reduction Server cannot run here, and the workers do not run "
        "rsctl-launch, so nothing replaces it: there are no reducers"
    ),
}


class StandIn(NamedTuple):
    """The replacement for Google's reducers; every node gets `env`, too."""

    kind: Kind
    env: dict[str, str]


def is_google_reducer(image: str) -> bool:
    """Whether an image is Reduction Server's."""
    return bool(_REDUCER_IMAGE.fullmatch(image))


def choose_stand_in(pools: list[dict[str, Any]]) -> StandIn:
    """The stand-in for the reducers of a job.

    rsctl's own where the chief runs rsctl-launch, which starts a reducer in the reducers' pool.
    """
    if len(pools) <= REDUCERS:
        return StandIn("none", {})
    image = pools[REDUCERS].get("containerSpec", {}).get("imageUri", "")
    if not is_google_reducer(image):
        return StandIn("none", {})
    if not _is_launched(pools[0].get("containerSpec", {})):
        return StandIn("absent", {})
    return StandIn("rsctl", {"RSCTL_REDUCER_KIND": "rsctl", "RSCTL_TOKEN": secrets.token_hex()})


def _is_launched(container: dict[str, Any]) -> bool:
    """Whether rsctl-launch runs in it: its arguments show that, with any command."""
    names = {variable["name"] for variable in container.get("env", [])}
    return "RSCTL_TARGET" in names and container.get("args", [])[:1] == ["--launcher"]
