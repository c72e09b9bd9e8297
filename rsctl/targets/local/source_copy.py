"""A copy of a job's source in the run's folder, for files that its script writes next to itself."""

from __future__ import annotations

from pathlib import Path

from rsctl.job.job import Job
from rsctl.job.options import process_options
from rsctl.runs.home import run_directory

_FOLDER = "source"


def working_directory(job: Job, run: str, replica: str) -> str:
    """The working folder of a replica of a job's own program."""
    if not job.image.source:
        return str(run_directory(run) / replica)
    if process_options(job).workdir == "copy":
        return str(run_directory(run) / _FOLDER)
    return str(job.image.source)


def copy_source(job: Job, run: str) -> None:
    """Copy the source that an image would get, if the job requests it. Raises OSError."""
    if not job.image.source or process_options(job).workdir != "copy":
        return
    from rsctl.images.context import copy_entries, source_entries

    copy_entries(source_entries(Path(job.image.source), "")[0], run_directory(run) / _FOLDER)
