"""A job's inputs on a cluster: paths that all nodes see. Pure."""

from __future__ import annotations

from rsctl.job.inputs import inputs_of
from rsctl.job.job import Job
from rsctl.targets.inputs import InputPlan, mounted_input


def input_plans(job: Job) -> list[InputPlan]:
    """The inputs as the nodes see them; rsctl-launch copies to a node's own disk."""
    by = "the shared file system"
    return [mounted_input(given, str(given.location), by, by) for given in inputs_of(job, "slurm")]
