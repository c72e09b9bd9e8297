"""A job's inputs on a cluster: paths that all nodes see. Pure."""

from __future__ import annotations

from rsctl.job.inputs import inputs_of
from rsctl.job.job import Job
from rsctl.targets.inputs import InputPlan, mounted_input


def input_plans(job: Job, run: str) -> list[InputPlan]:
    """The inputs as the nodes see them; rsctl-launch copies to a node's own disk."""
    by = "the shared file system"
    copies = f"/var/tmp/rsctl-{run}"  # noqa: S108 - the node refuses another user's folder
    return [
        mounted_input(given, str(given.location), by, by, copies)
        for given in inputs_of(job, "slurm")
    ]
