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
from rsctl.targets.inputs import input_env
from rsctl.targets.launch_command import launch_arguments, script_arguments
from rsctl.targets.local import rendering
from rsctl.targets.local.inputs import binds, input_plans

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
        replica.name: _service(job, run, image, replica)
        for replica in rendering.replicas(job, share)
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


def _identity(job: Job, run: str, replica: rendering.Replica) -> dict[str, Optional[str]]:
    """The variables that identify a container and its peers."""
    return {
        **rendering.identity_env(job, run, "compose", replica, "eth0"),
        **_role_hosts(job),
        "RSCTL_ATTEMPT": None,  # known only when the containers are created
        "RSCTL_READY": f"{_INSIDE}/ready",
    }


def _role_hosts(job: Job) -> dict[str, Optional[str]]:
    """Every container has its own address, so all can use the same port."""
    if not job.roles:
        return {}
    hosts = {
        role: [joined(name, DEFAULT_PORT) for name in rendering.names(job, role)]
        for role in ("worker", *job.roles)
    }
    return {ROLE_HOSTS: json.dumps(hosts)}


def _service(job: Job, run: str, image: str, replica: rendering.Replica) -> dict[str, Any]:
    """The container of a replica. Reducers get neither the script's environment nor its data."""
    options, own, role = compose_options(job), replica.job, job.roles.get(replica.role)
    service: dict[str, Any] = {
        "image": (role and role.image) or image,
        "pull_policy": "missing" if own.image.uri else "never",
        "container_name": container_name(run, replica.name),
        "hostname": replica.name,
        **_entry(own, run, replica.ranks),
        "labels": {
            "rsctl.run": run,
            "rsctl.role": replica.role,
            "rsctl.replica": replica.name,
        },
        "networks": [NETWORK],
        "restart": "no",
        "logging": {"driver": "local", "options": _LOG_OPTIONS},
    }
    if own.image.platform:
        service["platform"] = own.image.platform
    cpus, memory = limits_of(job, replica.index if replica.role == "worker" else None)
    if cpus:
        service["cpus"] = cpus
    if memory:
        service["mem_limit"] = int(memory)
        service["memswap_limit"] = int(memory)
    if options.network.bandwidth or options.network.delay:
        service["cap_add"] = ["NET_ADMIN"]
    env = {**_network_env(job), **_identity(job, run, replica)}
    if replica.role == "reducer":
        return {**service, "environment": {**replica.env, **env}, "volumes": [_ready(run)]}
    service["environment"] = {**replica.env, **_locations(job, run), **env}
    service |= {"volumes": _volumes(job, run), "shm_size": _shm_bytes(memory)}
    if replica.gpus:
        service["deploy"] = _gpu_reservation(replica.gpus)
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
