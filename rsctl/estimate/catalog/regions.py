"""The known regions of the clouds, and a warning for an unknown one."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from rsctl.estimate.catalog import read_data
from rsctl.findings import Finding, warning


class Regions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`regions.yaml`, by target."""

    as_of: str
    vertex: list[str]
    sagemaker: list[str]


@lru_cache
def regions() -> Regions:
    """The regions of both clouds."""
    return read_data("regions.yaml", Regions)


def unknown_region(target: str, region: str) -> Finding | None:
    """A warning for a region that has the right form and is not known: misspelt, or new."""
    known: list[str] = getattr(regions(), target)
    if region in known:
        return None
    from difflib import get_close_matches

    close = get_close_matches(region, known, n=2, cutoff=0.85)
    remedy = f"did you mean {' or '.join(close)}?" if close else "check its spelling"
    message = f"{region!r} was not a known region on {regions().as_of}"
    return warning("region", message, remedy, f"targets.{target}.region")
