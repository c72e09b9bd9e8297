"""A job's inputs on a cluster: paths that all nodes see. Pure."""

from __future__ import annotations

from rsctl.job.inputs import GivenInput, inputs_of
from rsctl.job.job import Job
from rsctl.targets.inputs import InputPlan, copied_path, shard_count


def input_plans(job: Job) -> list[InputPlan]:
    """The inputs as the nodes see them; rsctl-launch copies to a node's own disk."""
    return [_input_plan(given) for given in inputs_of(job, "slurm")]


def _input_plan(given: GivenInput) -> InputPlan:
    mode, count, location = given.mode or "mount", shard_count(given), str(given.location)
    if mode == "copy":
        return InputPlan(
            name=given.name,
            mode=mode,
            location=location,
            path=copied_path(given),
            by="rsctl-launch, from the shared file system",
            source=location,
            shards=count,
        )
    by = "the script, which opens URLs" if mode == "stream" else "the shared file system"
    return InputPlan(
        name=given.name, mode=mode, location=location, path=location, by=by, shards=count
    )
