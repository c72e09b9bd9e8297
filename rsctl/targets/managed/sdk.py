"""A job file or a job, planned for one cloud."""

from __future__ import annotations

from os import PathLike
from typing import Union

from rsctl.job.document import read
from rsctl.job.job import Job
from rsctl.plan import make_plan, name_of, require_no_matrix
from rsctl.runs.ids import new_run_id, require_run_id
from rsctl.targets import get
from rsctl.targets.base import Submission

AnyJob = Union[Job, str, "PathLike[str]"]


def planned(job: AnyJob, target: str, run: str | None) -> Submission:
    """The submission of a job file or a job, with a new run id unless one is given.

    Raises RsctlError with all errors of the job.
    """
    if run is not None:
        require_run_id(run)
    source = job if isinstance(job, Job) else read(str(job), ())
    submission = make_plan(source, get(target), run or new_run_id(name_of(source)))
    require_no_matrix(submission.job)
    return submission
