"""The job that measures a script: the same script for a few steps, without all the rest. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from rsctl.findings import Finding, error
from rsctl.job.job import Comm, Job, Limits, Reducers
from rsctl.job.units import Duration, EnvValue

STEPS = 20
"""The default number of measured steps."""

MOST_STEPS = 60
"""The maximum number of steps that the binding keeps (rsctl/transport/pytorch/step_times.py)."""

SMALLEST_BUCKET_MB = 1
"""In buckets as small as these, gradients can be regrouped into any larger ones."""


def job_to_measure(job: Job, steps: int, communicates: bool, seconds: float) -> Job:
    """The job whose run measures this one's script; it ends after so many steps, or `seconds`.

    Without communication it is one node, whose gradients stay where they are, in small buckets.
    With communication it is two nodes, which exchange gradients among themselves by the job's own
    backend and buckets. Outputs and checkpoints are the run's own, so that the job's are not
    overwritten, and nothing is sent to trackers.
    """
    measure = {"RSCTL_MEASURE_STEPS": str(steps), "RSCTL_MEASURE_COMM": str(int(communicates))}
    env = {**job.run.env, **{name: EnvValue(value) for name, value in measure.items()}}
    backend = "auto" if job.comm.backend == "rsctl" else job.comm.backend
    comm = replace(job.comm, backend=backend)
    if not communicates:
        comm = Comm(bucket_mb=SMALLEST_BUCKET_MB)
    return replace(
        job,
        run=replace(job.run, env=env),
        workers=replace(job.workers, count=2 if communicates else 1),
        reducers=Reducers(),
        comm=comm,
        outputs=None,
        checkpoints=None,
        limits=Limits(timeout=Duration(seconds)),
        metrics={},
        matrix={},
        gate=None,
        tracking=[],
        notify=[],
    )


def measure_findings(job: Job) -> list[Finding]:
    """Why the script of a job cannot be measured, if so."""
    if job.run.is_launched:
        return []
    message = "rsctl's binding to PyTorch measures steps, and launcher none does not load it"
    remedy = "use launcher torchrun or once, or write model.parameters and model.step_seconds"
    return [error("measure", message, remedy, "run.launcher")]
