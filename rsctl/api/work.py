"""The number of steps of a job and its time limit, from its job file."""

from __future__ import annotations

from typing import NamedTuple, Optional

from rsctl.job.job import Job
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
