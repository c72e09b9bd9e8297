"""The block `targets.slurm` of the spec."""

from __future__ import annotations

from typing import Annotated, Literal, Optional, Union

import msgspec
from msgspec import Meta, field

from rsctl.job.job import Job
from rsctl.job.units import Size
from rsctl.target_info import target_info

Word = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@:+-]*$")]
Expression = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.,:&|()*\[\]@=+-]+$")]
Line = Annotated[str, Meta(pattern=r"^[^\r\n\0]+$")]
Option = Annotated[str, Meta(pattern=r"^--?[A-Za-z][A-Za-z0-9-]*(=[^\r\n\0]*)?$")]

CONNECTION = (
    r"^(local|ssh://[A-Za-z0-9._@:\[\]-]+|https?://[A-Za-z0-9._-]+(:[0-9]{1,5})?/?"
    r"|vertex://[a-z0-9:.-]+/[a-z0-9-]+/[A-Za-z0-9._-]+)$"
)
"""The values of `connection`. OpenSSH would take a host that begins with - for an option."""

FOLDER = r"^/[A-Za-z0-9._/+@-]+$"
"""Folders that Slurm, enroot and Apptainer take in options without quotes."""


class SlurmOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Slurm cluster, and what its jobs ask for."""

    connection: Annotated[
        str,
        Meta(
            description="How rsctl reaches the cluster. local: the commands sbatch, squeue, "
            "scontrol and scancel of this machine. ssh://HOST: the same commands on HOST, by your "
            "OpenSSH. http://HOST:6820 or https://: slurmrestd, with the token in SLURM_JWT. "
            "vertex://PROJECT/REGION/CLUSTER: a training cluster of Vertex AI.",
            pattern=CONNECTION,
        ),
    ] = "local"
    shared: Annotated[
        Optional[Annotated[str, Meta(pattern=FOLDER)]],
        Meta(
            description="A folder that all nodes of the cluster see at the same path, such as "
            "/shared/me. Each run has a folder there, with its log and its outputs.",
        ),
    ] = None
    container: Annotated[
        Literal["none", "pyxis", "apptainer"],
        Meta(
            description="Starts image.uri or the image that rsctl builds. none: the job runs "
            "without an image, in the environment that `setup` makes."
        ),
    ] = "none"
    setup: Annotated[
        list[Line],
        Meta(
            description="Lines of a bash script that runs on the first node before the job, such "
            "as `module load cuda` or `source /shared/venv/bin/activate`. All nodes get the "
            "variables that it exports."
        ),
    ] = field(default_factory=list)
    python: Annotated[
        str,
        Meta(description="The Python of the nodes, 3.10 or newer.", pattern=r"^[A-Za-z0-9._/+-]+$"),
    ] = "python3"
    partition: Annotated[
        Optional[Expression], Meta(description="Partition, or several with commas between.")
    ] = None
    account: Annotated[Optional[Word], Meta(description="The account that is charged.")] = None
    qos: Annotated[Optional[Word], Meta(description="Quality of service.")] = None
    reservation: Annotated[Optional[Expression], Meta(description="Reservation.")] = None
    constraint: Annotated[
        Optional[Expression],
        Meta(
            description="Features that all nodes must have, such as `a100&nvlink`. workers.machine "
            "adds a feature for the workers alone."
        ),
    ] = None
    exclude: Annotated[
        Optional[Expression], Meta(description="Nodes that the job must not get, such as gpu[3,7].")
    ] = None
    exclusive: Annotated[
        Optional[bool],
        Meta(description="Whether the job has its nodes to itself. Default: unless `cpus` is set."),
    ] = None
    cpus: Annotated[
        Optional[Annotated[int, Meta(ge=1, le=4096)]],
        Meta(description="CPUs of each worker's node, if the job shares its nodes with others."),
    ] = None
    memory: Annotated[
        Union[Literal["all"], Size, None],
        Meta(description="Memory of each node, such as 64GB; all: all of the node's (--mem=0)."),
    ] = None
    gpu_type: Annotated[
        Optional[Word],
        Meta(description="The cluster's name of the GPUs, such as a100. Default: any GPUs."),
    ] = None
    switches: Annotated[
        Optional[Annotated[str, Meta(pattern=r"^[0-9]+(@[0-9:-]+)?$")]],
        Meta(description="Most switches between the nodes: COUNT, or COUNT@TIME."),
    ] = None
    segment: Annotated[
        Optional[Annotated[int, Meta(ge=1)]],
        Meta(description="Nodes of a block of the topology (Slurm 23.11 and newer)."),
    ] = None
    licenses: Annotated[Optional[Expression], Meta(description="Licenses, such as matlab:1.")] = (
        None
    )
    reducer_placement: Annotated[
        Literal["auto", "separate", "colocated"],
        Meta(
            description="separate: reducers have nodes of their own, as a component of a "
            "heterogeneous job. colocated: they are additional tasks on the workers' nodes. auto: "
            "colocated if the job may be requeued, because Slurm cannot preempt heterogeneous "
            "jobs, unless reducers have a machine or a partition of their own; otherwise separate."
        ),
    ] = "auto"
    reducer_partition: Annotated[
        Optional[Expression],
        Meta(description="Partition of separate reducers, such as one of CPU nodes."),
    ] = None
    requeue: Annotated[
        Literal["auto", "yes", "no"],
        Meta(
            description="Whether Slurm starts the job again after the failure of a node or a "
            "preemption. auto: with limits.restarts: platform, and for a job with `checkpoints` "
            "whose limits.restarts is not set. A bench never requeues its runs: the second start "
            "has the same ID and spoils the numbers."
        ),
    ] = "auto"
    auto_resume: Annotated[
        bool,
        Meta(
            description="Have SageMaker HyperPod replace a faulty node and resume the workers' "
            "step (srun --auto-resume=1). Without effect on other clusters, and in a bench."
        ),
    ] = False
    sbatch: Annotated[
        list[Option],
        Meta(description="Further options of sbatch, each as --NAME=VALUE, for all nodes."),
    ] = field(default_factory=list)
    srun: Annotated[
        list[Option], Meta(description="Further options of srun for the workers' step.")
    ] = field(default_factory=list)


def slurm_options(job: Job) -> SlurmOptions:
    """The job's block `targets.slurm`."""
    options: SlurmOptions = target_info("slurm").options_of(job)
    return options
