"""A copy of a job's source in the run's folder, for files that its script writes next to itself."""

from __future__ import annotations

import os
import shutil
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
    from rsctl.images.context import source_entries

    folder = run_directory(run) / _FOLDER
    entries, _ = source_entries(Path(job.image.source), "")
    for entry in entries:
        path = folder / entry.name
        if entry.link is not None:
            path.symlink_to(entry.link)
        elif entry.path is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(entry.path, path)
            os.chmod(path, 0o755 if entry.executable else 0o644)
