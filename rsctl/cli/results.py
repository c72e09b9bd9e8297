"""The locations of a run's results."""

from __future__ import annotations

import os

from rsctl.runs.home import is_rehearsed
from rsctl.runs.store import Run
from rsctl.targets import get


def results_of(run: Run) -> dict[str, str]:
    """Locations by what they hold: `outputs`, `checkpoints`, on clouds `model` too.

    Those of a rehearsal are the folders that stood for the cloud's buckets.
    """
    try:
        found = get(run.target).results(run.plan)
    except (KeyError, TypeError, AttributeError):  # a plan that another version has stored
        return {}
    if not is_rehearsed(run.run):
        return found
    from rsctl.rehearsal.buckets import bucket_folder

    return {name: str(bucket_folder(location)) for name, location in found.items()}


def format_location(location: str) -> str:
    """The location; of one on this machine also whether there is nothing."""
    return f"{location}  (nothing there)" if is_empty(location) else location


def is_empty(location: str) -> bool:
    """Whether a path on this machine has no file; False where that cannot be read."""
    if "://" in location:
        return False
    try:
        with os.scandir(location) as entries:
            return next(entries, None) is None
    except NotADirectoryError:
        return False
    except OSError:
        return not os.path.lexists(location)
