"""Where the results of a run are."""

from __future__ import annotations

from rsctl.runs.home import is_rehearsed
from rsctl.runs.records import RunRecord
from rsctl.targets import get


def result_locations(run: RunRecord) -> dict[str, str]:
    """Locations by their content: `outputs`, `checkpoints`, on clouds `model` too.

    The locations of a rehearsal are the folders that stood for the cloud's buckets.
    """
    locations = planned_locations(run)
    if not is_rehearsed(run.run):
        return locations
    from rsctl.targets.managed.rehearsal.buckets import bucket_folder

    return {name: str(bucket_folder(location)) for name, location in locations.items()}


def planned_locations(run: RunRecord) -> dict[str, str]:
    """Locations by their content as in the request, also of a rehearsal."""
    try:
        return get(run.target).results(run.plan)
    except (KeyError, TypeError, AttributeError):  # a plan that another version has stored
        return {}
