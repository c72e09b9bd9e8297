"""Where the results of a run are, and its pages in a browser."""

from __future__ import annotations

import os

from rsctl.runs.home import is_rehearsed, run_directory
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
        planned = get(run.target).results(run.plan)
    except (KeyError, TypeError, AttributeError):  # a plan that another version has stored
        return {}
    return {name: _present(run.run, location) for name, location in planned.items()}


def _present(run: str, location: str) -> str:
    """The location; for a folder of the run that RSCTL_HOME has taken to another place, that."""
    _, part, rest = location.rpartition(f"/runs/{run}/")
    here = str(run_directory(run) / rest)
    is_moved = part and location[0] == "/" and not os.path.exists(location) and os.path.exists(here)
    return here if is_moved else location


def pages_of(run: RunRecord) -> dict[str, str]:
    """Addresses by kind: `console`, `tensorboard` and `logs` of a job in a cloud.

    For a run on this machine, and for a rehearsal, the folders of its log and its results.
    """
    try:
        pages = {} if is_rehearsed(run.run) else get(run.target).pages(run.url, run.plan)
    except (KeyError, TypeError, AttributeError):  # a plan that another version has stored
        pages = {}
    if pages:
        return pages
    folders = {"run": str(run_directory(run.run)), **result_locations(run)}
    return {name: location for name, location in folders.items() if "://" not in location}
