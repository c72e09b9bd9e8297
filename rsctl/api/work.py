"""The number of steps of a job and its time limit, from its job file."""

from __future__ import annotations

from typing import NamedTuple, Optional

from rsctl.job.document import read
from rsctl.job.job import Job
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.training_progress import Goal, goal_of


class Work(NamedTuple):
    """The number of steps in a job's arguments, and its time limit in seconds."""

    goal: Goal = Goal()
    timeout: Optional[float] = None


def work_of(job: Job) -> Work:
    """The work of a job."""
    args = job.run.args
    pairs = args.items() if isinstance(args, dict) else ()
    words = [f"--{name}={value}" for name, value in pairs] if isinstance(args, dict) else args
    timeout = job.limits.timeout
    goal = goal_of([*(job.run.command or ()), *words])
    return Work(goal, float(timeout) if timeout else None)


def work_of_run(run: RunRecord) -> Work:
    """The work of a run's saved job file; nothing is known if the file is not readable here."""
    if run.spec is None:
        return Work()
    job = read(f"the job file of {run.run}", run.settings, text=run.spec).job
    return work_of(job) if job else Work()
