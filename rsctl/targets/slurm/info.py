"""Target `slurm`, as data."""

from __future__ import annotations

from rsctl.target_info import TargetInfo, Unsupported

_DISK = "the nodes of a Slurm cluster have the disks that they have"

INFO = TargetInfo(
    name="slurm",
    title="Slurm",
    target="rsctl.targets.slurm.target:TARGET",
    options="rsctl.targets.slurm.options:SlurmOptions",
    is_managed=True,
    input_modes=frozenset({"mount", "copy", "stream", "shards"}),
    refused={
        "run.package": Unsupported(
            "Slurm has no vendor's container that installs the package",
            "set image.source: FOLDER instead",
        ),
        "comm.backend": Unsupported(
            "Slurm has no SageMaker library", "set comm.backend: auto", frozenset({"smddp"})
        ),
        "limits.cost": Unsupported(
            "the nodes of a Slurm cluster have no price", "remove limits.cost"
        ),
    },
    unused={
        "workers.disk": _DISK,
        "chief.disk": _DISK,
        "reducers.disk": _DISK,
        "roles.NAME.disk": _DISK,
        "limits.spot": "a partition or targets.slurm.qos decides whether jobs are preempted",
    },
    honoured=frozenset({"chief", "roles", "profile"}),
    bench_options={"requeue": "no", "auto_resume": False},
    node_access="`srun --jobid=JOB --overlap --nodelist=NODE --pty bash`, with the job and the "
    "node that `rsctl status` shows",
    excludes_nodes="exclude",
    platform="linux/amd64",
    aliases=frozenset({"sbatch", "srun", "hpc", "hyperpod", "parallelcluster"}),
    result_source="rsctl.targets.slurm.results:result_source",
    job_checks=("rsctl.targets.slurm.doctor:slurm_checks",),
    script_code="rsctl.targets.slurm.plan_code:code",
)
