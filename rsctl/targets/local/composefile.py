"""The compose file of a run, as data. Pure."""

from __future__ import annotations

import json
from typing import Any, Optional

from rsctl.job.job import Job
from rsctl.job.options import compose_options
from rsctl.job.units import Size
from rsctl.node.cluster import DEFAULT_PORT, joined
from rsctl.node.roles import ROLE_HOSTS
from rsctl.runs.home import run_directory
from rsctl.targets.chief import worker_job
from rsctl.targets.inputs import input_env
from rsctl.targets.launch_command import launch_arguments, script_arguments
from rsctl.targets.local import rendering
from rsctl.targets.local.inputs import binds, input_plans
from rsctl.targets.roles import role_job
from rsctl.targets.variables import reducer_count

NETWORK = "cluster"
_INSIDE = "/rsctl"
_SHM_BYTES = 1 << 30  # Docker's 64 MB is too small for data loaders and for gloo and NCCL
_LOG_OPTIONS = {"max-size": "20m", "max-file": "2"}  # the whole log is in the run's folder


def project_name(run: str) -> str:
    """The compose project of a run."""
    return f"rsctl-{run}"


def container_name(run: str, replica: str) -> str:
    """The container of a replica."""
    return f"rsctl-{run}-{replica}"


def compose_file(
    job: Job, run: str, image: str, share: rendering.Share, lock_memory: bool
) -> dict[str, Any]:
    """One service for each replica, in a separate network. `$` is doubled, as compose wants it."""
    limits = {"core": 0, **({"memlock": -1} if lock_memory else {})}
    services = {
        f"worker-{index}": _worker(job, run, image, share, index)
        for index in range(job.workers.count)
    }
    services |= {
        f"reducer-{index}": _reducer(job, run, image, share, index)
        for index in range(reducer_count(job))
    }
    services |= {
        f"{name}-{index}": _of_role(job, run, image, share, name, index)
        for name, role in job.roles.items()
        for index in range(role.count)
    }
    escaped = _escaped({name: {**s, "ulimits": limits} for name, s in services.items()})
    return {
        "name": project_name(run),
        "services": escaped,
        "networks": {NETWORK: {"labels": {"rsctl.run": run}}},
    }


def common_env(job: Job, run: str, share: rendering.Share) -> dict[str, Optional[str]]:
    """The variables for the script in every container."""
    return rendering.script_env(job, share) | _locations(job, run) | _network_env(job)


def _locations(job: Job, run: str) -> dict[str, Optional[str]]:
    env = dict(input_env(input_plans(job, run, "compose")))
    env["RSCTL_OUTPUT_DIR"] = f"{_INSIDE}/outputs"
    env["RSCTL_CHECKPOINT_DIR"] = f"{_INSIDE}/checkpoints"
    return env


def mounted_results(compose: dict[str, Any]) -> dict[str, str]:
    """The folders of this machine that the containers see as outputs and checkpoints."""
    volumes = compose["services"]["worker-0"]["volumes"]
    sources = {volume["target"]: volume["source"].replace("$$", "$") for volume in volumes}
    return {name: sources[f"{_INSIDE}/{name}"] for name in ("outputs", "checkpoints")}


def _network_env(job: Job) -> dict[str, Optional[str]]:
    """How rsctl-launch shapes the network of a container; bit/s and seconds."""
    network = compose_options(job).network
    env: dict[str, Optional[str]] = {}
    if network.bandwidth:
        env["RSCTL_NET_BANDWIDTH"] = str(int(network.bandwidth))
    if network.delay:
        env["RSCTL_NET_DELAY"] = f"{float(network.delay):.6f}"
    return env


def _worker(job: Job, run: str, image: str, share: rendering.Share, index: int) -> dict[str, Any]:
    replica_job = worker_job(job, index)
    env = {**common_env(replica_job, run, share), **_identity(job, run, "worker", index)}
    service = {
        **_service(replica_job, run, image, share.ranks[index], "worker", index),
        "environment": env,
        "volumes": _volumes(job, run),
        "shm_size": _shm_bytes(limits_of(job, index)[1]),
    }
    if share.gpus[index]:
        service["deploy"] = _gpu_reservation(share.gpus[index])
    return service


def _reducer(job: Job, run: str, image: str, share: rendering.Share, index: int) -> dict[str, Any]:
    """Reducers get neither the script's environment nor its data."""
    env = {**rendering.reducer_env(job), **_network_env(job)}
    return {
        **_service(job, run, image, share.ranks[-1], "reducer", index),
        "environment": {**env, **_identity(job, run, "reducer", index)},
        "volumes": [_ready(run)],
    }


def _of_role(
    job: Job, run: str, image: str, share: rendering.Share, role: str, index: int
) -> dict[str, Any]:
    replica_job = role_job(job, role)
    env = rendering.role_env(replica_job, share) | _locations(job, run) | _network_env(job)
    service = {
        **_service(replica_job, run, job.roles[role].image or image, 1, role, index),
        "environment": {**env, **_identity(job, run, role, index)},
        "volumes": _volumes(job, run),
        "shm_size": _shm_bytes(limits_of(job, None)[1]),
    }
    if share.role_gpus[role][index]:
        service["deploy"] = _gpu_reservation(share.role_gpus[role][index])
    return service


def _identity(job: Job, run: str, role: str, index: int) -> dict[str, Optional[str]]:
    """The variables that identify a container and its peers."""
    roles = {name: rendering.role_names(job, name) for name in rendering.launched_roles(job)}
    hosts = rendering.worker_names(job), rendering.reducer_names(job), roles
    return {
        **rendering.identity_env(job, run, "compose", role, f"{role}-{index}"),
        "RSCTL_CLUSTER": rendering.cluster_json(role, index, *hosts, "eth0"),
        **_role_hosts(job),
        "RSCTL_ATTEMPT": None,  # known only when the containers are created
        "RSCTL_READY": f"{_INSIDE}/ready",
    }


def _role_hosts(job: Job) -> dict[str, Optional[str]]:
    """Every container has its own address, so all can use the same port."""
    if not job.roles:
        return {}
    names = {"worker": rendering.worker_names(job)}
    names |= {name: rendering.role_names(job, name) for name in job.roles}
    hosts = {role: [joined(each, DEFAULT_PORT) for each in names[role]] for role in names}
    return {ROLE_HOSTS: json.dumps(hosts)}


def _service(job: Job, run: str, image: str, ranks: int, role: str, index: int) -> dict[str, Any]:
    """The common settings of all containers; rsctl-launch derives the command from its role."""
    options = compose_options(job)
    name = f"{role}-{index}"
    service: dict[str, Any] = {
        "image": image,
        "pull_policy": "missing" if job.image.uri else "never",
        "container_name": container_name(run, name),
        "hostname": name,
        **_entry(job, run, ranks),
        "labels": {"rsctl.run": run, "rsctl.role": role, "rsctl.replica": name},
        "networks": [NETWORK],
        "restart": "no",
        "logging": {"driver": "local", "options": _LOG_OPTIONS},
    }
    if job.image.platform:
        service["platform"] = job.image.platform
    cpus, memory = limits_of(job, index if role == "worker" else None)
    if cpus:
        service["cpus"] = cpus
    if memory:
        service["mem_limit"] = int(memory)
        service["memswap_limit"] = int(memory)
    if options.network.bandwidth or options.network.delay:
        service["cap_add"] = ["NET_ADMIN"]
    return service


def _entry(job: Job, run: str, ranks: int) -> dict[str, Any]:
    """With launcher none, command and args replace the image's own, each only if it is given."""
    if job.run.launcher == "none":
        entry: dict[str, Any] = {}
        if job.run.program is not None:
            entry["entrypoint"] = list(job.run.program)
        if job.run.args:
            entry["command"] = script_arguments(job)
        return entry
    return {
        "entrypoint": ["rsctl-launch"],
        "command": launch_arguments(job, ranks, inputs=input_plans(job, run, "compose")),
    }


def _volumes(job: Job, run: str) -> list[dict[str, Any]]:
    directory = run_directory(run)
    volumes = [
        _bind(job.outputs or directory / "outputs", f"{_INSIDE}/outputs"),
        _bind(job.checkpoints or directory / "checkpoints", f"{_INSIDE}/checkpoints"),
        _ready(run),
    ]
    for inside, source in binds(job, run).items():
        volumes.append({**_bind(source, inside), "read_only": True})
    return volumes


def _ready(run: str) -> dict[str, Any]:
    """Where the containers meet before they start the work."""
    return _bind(run_directory(run) / "ready", f"{_INSIDE}/ready")


def _bind(source: object, inside: str) -> dict[str, Any]:
    return {
        "type": "bind",
        "source": str(source),
        "target": inside,
        "bind": {"create_host_path": False},
    }


def limits_of(job: Job, worker: int | None) -> tuple[Optional[float], Optional[Size]]:
    """The cores and the memory of a container: of the worker of this number, or of another role."""
    options = compose_options(job)
    if worker == 0:
        return options.chief.cpus or options.cpus, options.chief.memory or options.memory
    return options.cpus, options.memory


def _shm_bytes(memory: Optional[Size]) -> int:
    return min(_SHM_BYTES, int(memory) // 2) if memory else _SHM_BYTES


def _gpu_reservation(gpus: tuple[int, ...]) -> dict[str, Any]:
    device = {
        "driver": "nvidia",
        "device_ids": [str(gpu) for gpu in gpus],
        "capabilities": ["gpu"],
    }
    return {"resources": {"reservations": {"devices": [device]}}}


def _escaped(value: Any) -> Any:
    """Compose replaces $VAR in every text; doubled, it stays as it is."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return value
