"""The pages of a run in a browser."""

from __future__ import annotations

from rsctl.api.results import result_locations
from rsctl.runs.home import is_rehearsed, run_directory
from rsctl.runs.records import RunRecord
from rsctl.targets import get


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
