"""Folders of each run of a bench or drill: none reads or replaces what another has written."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from rsctl.findings import Finding, note
from rsctl.job.job import Job
from rsctl.job.units import Location


def with_own_folders(job: Job, run: str) -> Job:
    """The job with checkpoints and outputs of its own run, below the locations that it names.

    A run that found the checkpoints of the one before it would continue that one's training.
    """
    return replace(job, checkpoints=_own(job.checkpoints, run), outputs=_own(job.outputs, run))


def folder_findings(job: Job) -> Iterator[Finding]:
    """Notes for locations of the job file that the runs of a bench do not share."""
    for key, location in (("checkpoints", job.checkpoints), ("outputs", job.outputs)):
        if location is not None:
            own = _own(location, "RUN") or f"the run's own folder, not {location}"
            yield note("bench", f"a bench keeps the {key} of each run in {own}", None, key)


def _own(location: Location | None, run: str) -> Location | None:
    if location is None or location.scheme == "file":
        return None  # the run's own folder
    return Location(f"{location.rstrip('/')}/{run}")
