"""A warning for a region that the catalogue does not have."""

from __future__ import annotations

from rsctl.estimate.catalog import load
from rsctl.findings import Finding, warning


def unknown_region(target: str, region: str) -> Finding | None:
    """A warning for a region that has the right form and is unknown: misspelled, or new."""
    catalog = load(target)
    if region in catalog.regions:
        return None
    from difflib import get_close_matches

    close = get_close_matches(region, catalog.regions, n=2, cutoff=0.85)
    remedy = f"did you mean {' or '.join(close)}?" if close else "check its spelling"
    message = f"{region!r} is not a region that was known on {catalog.regions_as_of}"
    return warning("region", message, remedy, f"targets.{target}.region")
