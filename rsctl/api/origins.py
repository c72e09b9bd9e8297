"""The origin of a run: its job file, and the state of its source as it was submitted."""

from __future__ import annotations

from pathlib import Path

from rsctl.bench.prepare import content_of
from rsctl.images.git_commit import commit_of
from rsctl.runs.origin import Origin
from rsctl.targets.base import Submission


def make_origin(submission: Submission, file: str, folder: str) -> Origin:
    """The origin of a submission whose job file is `file`. Raises OSError."""
    source = submission.job.image.source
    commit = commit_of(Path(source)) if source else None
    content = content_of(submission, file, folder)
    content.pop(f"file {Path(file).name}", None)  # the job file of a checkout is not in `folder`
    return Origin(
        file=file,
        folder=folder,
        commit=commit and commit.label,
        content=content,
    )
