"""A copy of a job's source in the run's folder, for files that its script writes next to itself."""

from __future__ import annotations

from pathlib import Path

from rsctl.atomic_file import FULL
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
    """Copy the source that an image would get, if the job requests it.

    Raises OSError for the copy, and RsctlError for a file of the source that cannot be read, or
    that was removed meanwhile.
    """
    if not job.image.source or process_options(job).workdir != "copy":
        return
    from rsctl.images.context import copy_entries, source_entries, unreadable

    source, copy = Path(job.image.source), run_directory(run) / _FOLDER
    try:
        copy_entries(source_entries(source, "", results=job.local_results)[0], copy)
    except OSError as problem:
        file = Path(str(problem.filename))  # of a full disk too
        if problem.errno in FULL or file.is_relative_to(copy) or not file.is_relative_to(source):
            raise
        raise unreadable(problem) from None
