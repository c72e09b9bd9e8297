"""The CustomJob of a job, as sent. Pure.

Pool 0 is the chief alone, pool 1 the other workers, pool 2 the reducers; pools 2 and 3 are also for
the job's own roles. `{}` stands for a missing pool.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from rsctl.estimate.catalog import Machine
from rsctl.job.job import Job
from rsctl.node.platforms.vertex_nccl import SETUP
from rsctl.targets.chief import chief_job
from rsctl.targets.launch_command import launch_arguments, script_arguments
from rsctl.targets.variables import TOKEN
from rsctl.targets.vertex.catalog import rules
from rsctl.targets.vertex.checks import boot_disk, disk_gb
from rsctl.targets.vertex.environment import container_env, input_plans, outputs_of
from rsctl.targets.vertex.machines import gpus_of
from rsctl.targets.vertex.names import experiment_name, labels_of, tensorboard_name
from rsctl.targets.vertex.options import vertex_options
from rsctl.targets.vertex.pool_resolution import ResolvedPools
from rsctl.targets.vertex.reducers import ReducerPool
from rsctl.targets.vertex.roles import RolePool
from rsctl.targets.vertex.scheduling import scheduling
from rsctl.targets.vertex.tpus import topology_of
from rsctl.transport.tls_identity import IDENTITY_VARIABLE

_REDUCERS = 2
_PRIVATE = (TOKEN, IDENTITY_VARIABLE)
_AFFINITIES = {"any": "ANY_RESERVATION", "none": "NO_RESERVATION"}
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"


class Entrypoint(NamedTuple):
    """An image, and the command of its containers; no command if the image has its own.

    `package` is the location of `run.package`, which the image installs.
    """

    image: str
    command: list[str]
    package: str = ""


def url_of(job: Job) -> str:
    """The URL at which jobs are created."""
    options = vertex_options(job)
    return (
        f"https://{options.first_region}-aiplatform.googleapis.com/v1/projects/{options.project}"
        f"/locations/{options.first_region}/customJobs"
    )


def custom_job(job: Job, run: str, resolved: ResolvedPools, entry: Entrypoint) -> dict[str, Any]:
    """The body. The value of a secret variable is None, and the image has its tag."""
    body: dict[str, Any] = {
        "displayName": run,
        "labels": labels_of(job, run),
        "jobSpec": _job_spec(job, run, resolved, entry),
    }
    if vertex_options(job).encryption_key:
        body["encryptionSpec"] = {"kmsKeyName": vertex_options(job).encryption_key}
    return body


def env_of(job: Job, run: str, resolved: ResolvedPools) -> dict[str, Optional[str]]:
    """The variables of a job's containers, except Reduction Server's."""
    workers = (resolved.machine, job), (resolved.chief, chief_job(job))
    rates = [machine.bandwidth(of.workers.accelerator) for machine, of in workers]
    return container_env(
        job,
        run,
        resolved.has_own_reducers,
        resolved.pool_roles,
        resolved.awaited,
        min(filter(None, rates), default=None),
    )


def _job_spec(job: Job, run: str, resolved: ResolvedPools, entry: Entrypoint) -> dict[str, Any]:
    options = vertex_options(job)
    spec: dict[str, Any] = {
        "workerPoolSpecs": _pools(job, run, resolved, entry),
        "scheduling": scheduling(job),
        "serviceAccount": options.service_account,
        "network": options.network,
        "reservedIpRanges": list(options.reserved_ip_ranges),
        "pscInterfaceConfig": _psc(job),
        "baseOutputDirectory": _output_directory(job, run),
        "tensorboard": tensorboard_name(options) if options.tensorboard else None,
        "experiment": experiment_name(options) if options.experiment else None,
        "experimentRun": (
            experiment_name(options, options.experiment_run) if options.experiment_run else None
        ),
        "persistentResourceId": options.persistent_resource,
        "enableWebAccess": options.web_access,
        "enableDashboardAccess": options.dashboard_access,
    }
    return {name: value for name, value in spec.items() if value}


def _pools(job: Job, run: str, resolved: ResolvedPools, entry: Entrypoint) -> list[dict[str, Any]]:
    def container(own: Job, processes: int) -> dict[str, Any]:
        return _container(own, run, resolved, entry, processes)

    chief, others = chief_job(job), job.workers.count - 1
    for_chief, for_others = container(chief, resolved.chief_processes), resolved.processes
    pools = [
        _worker_pool(chief, "chief", resolved.chief, 1, for_chief),
        _worker_pool(job, "workers", resolved.machine, others, container(job, for_others))
        if others
        else {},
    ]
    pools += [{}, {}]
    if resolved.reducers:
        pools[_REDUCERS] = _reducer_pool(job, resolved.reducers, container(job, for_others))
    for role in resolved.roles:
        pools[role.number] = _role_pool(role, run, resolved, entry)
    while not pools[-1]:
        pools.pop()
    return pools


def _worker_pool(
    job: Job, role: str, machine: Machine, count: int, container: dict[str, Any]
) -> dict[str, Any]:
    options = vertex_options(job)
    if _needs_rdma_setup(job, role, machine):
        setup = {"name": SETUP, "value": machine.nccl_setup}
        container = {**container, "env": [*container.get("env", []), setup]}
    pool = {
        "machineSpec": _machine_spec(job, machine),
        "replicaCount": str(count),
        "pythonPackageSpec" if job.run.package else "containerSpec": container,
        "diskSpec": _disk_spec(job, role),
        "nfsMounts": [
            {"server": mount.server, "path": mount.path, "mountPoint": name}
            for name, mount in options.nfs.items()
        ],
        "lustreMounts": [
            {
                "instanceIp": mount.ip,
                "volumeHandle": mount.volume,
                "filesystem": mount.filesystem,
                "mountPoint": name,
            }
            for name, mount in options.lustre.items()
        ],
    }
    return {name: value for name, value in pool.items() if value}


def _needs_rdma_setup(job: Job, role: str, machine: Machine) -> bool:
    """Whether rsctl-launch sets NCCL's variables for RDMA, and warns if it cannot."""
    is_exchanging = job.workers.count > 1 and role in ("chief", "workers")
    return machine.nccl_setup == "gib" and job.run.is_launched and is_exchanging


def _role_pool(
    role: RolePool, run: str, resolved: ResolvedPools, entry: Entrypoint
) -> dict[str, Any]:
    """A separate image has neither rsctl-launch nor a package of rsctl, nor the run's secret."""
    entry = Entrypoint(role.image, []) if role.image else entry
    container = _container(role.job, run, resolved, entry, 1)
    if role.image:
        container["env"] = [each for each in container["env"] if each["name"] not in _PRIVATE]
    return _worker_pool(role.job, role.name, role.machine, role.job.workers.count, container)


def _reducer_pool(job: Job, reducers: ReducerPool, container: dict[str, Any]) -> dict[str, Any]:
    """Reducers get neither mounts nor reservations."""
    own = [{"name": name, "value": str(value)} for name, value in job.reducers.env.items()]
    if reducers.kind == "google":
        container = {"imageUri": rules().reducer_image(str(vertex_options(job).first_region))}
    env = [
        *(each for each in container.get("env", []) if each["name"] not in job.reducers.env),
        *own,
    ]
    pool = {
        "machineSpec": {"machineType": reducers.machine.name},
        "replicaCount": str(reducers.count),
        "containerSpec": {**container, "env": env} if env else container,
    }
    disk: dict[str, Any] = {}
    if not isinstance(vertex_options(job).boot_disk, str) and (kind := boot_disk(job, "reducers")):
        disk["bootDiskType"] = kind
    if job.reducers.disk:
        disk["bootDiskSizeGb"] = disk_gb(job.reducers.disk)
    return {**pool, "diskSpec": disk} if disk else pool


def _container(
    job: Job, run: str, resolved: ResolvedPools, entry: Entrypoint, processes: int
) -> dict[str, Any]:
    """One for all roles: rsctl-launch derives the command from the node's role."""
    container: dict[str, Any] = {"imageUri": entry.image, **_entry(job, entry, processes)}
    if job.run.package is not None:
        container = {
            "executorImageUri": entry.image,
            "packageUris": [entry.package],
            "pythonModule": job.run.module,
            "args": script_arguments(job),
        }
    env = env_of(job, run, resolved)
    container["env"] = [{"name": name, "value": value} for name, value in env.items()]
    return {name: value for name, value in container.items() if value}


def _entry(job: Job, entry: Entrypoint, processes: int) -> dict[str, Any]:
    """With launcher none, command and args replace the image's own, each only if it is given."""
    if job.run.is_launched:
        command = {"command": list(entry.command)} if entry.command else {}
        arguments = launch_arguments(job, processes, inputs=input_plans(job))
        return {**command, "args": arguments}
    fields: dict[str, Any] = {}
    if job.run.program is not None:
        fields["command"] = list(job.run.program)
    if job.run.args:
        fields["args"] = script_arguments(job)
    return fields


def _machine_spec(job: Job, machine: Machine) -> dict[str, Any]:
    spec: dict[str, Any] = {"machineType": machine.name}
    accelerator = job.workers.accelerator
    if topology := topology_of(job, machine):
        spec["tpuTopology"] = topology
    elif accelerator:
        spec["acceleratorType"] = gpus_of(machine, accelerator).enum
        spec["acceleratorCount"] = accelerator.per_node
    reservation = vertex_options(job).reservation
    if accelerator is None:
        return spec  # a chief without GPUs beside workers with reserved ones
    if isinstance(reservation, list) and reservation:
        spec["reservationAffinity"] = {
            "reservationAffinityType": "SPECIFIC_RESERVATION",
            "key": _RESERVATION_KEY,
            "values": list(reservation),
        }
    elif isinstance(reservation, str):
        spec["reservationAffinity"] = {"reservationAffinityType": _AFFINITIES[reservation]}
    return spec


def _disk_spec(job: Job, role: str) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if kind := boot_disk(job, role):
        spec["bootDiskType"] = kind
    if job.workers.disk:
        spec["bootDiskSizeGb"] = disk_gb(job.workers.disk)
    return spec


def _psc(job: Job) -> Optional[dict[str, Any]]:
    psc = vertex_options(job).psc
    if psc is None:
        return None
    config: dict[str, Any] = {"networkAttachment": psc.network_attachment}
    if psc.dns:
        config["dnsPeeringConfigs"] = [
            {"domain": domain, "targetProject": peer.project, "targetNetwork": peer.network}
            for domain, peer in psc.dns.items()
        ]
    return config


def _output_directory(job: Job, run: str) -> Optional[dict[str, str]]:
    outputs = outputs_of(job, run)
    return {"outputUriPrefix": outputs} if outputs else None
