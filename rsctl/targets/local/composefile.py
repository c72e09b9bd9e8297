"""The compose file of a run, as data. Pure."""

from __future__ import annotations

from typing import Any, Optional

from rsctl.runs.home import run_directory
from rsctl.spec.job import Job
from rsctl.targets.local import replicas

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
    job: Job, run: str, image: str, share: replicas.Share, lock_memory: bool
) -> dict[str, Any]:
    """One service a replica, on a network of its own. `$` is doubled, as compose wants it."""
    limits = {"core": 0, **({"memlock": -1} if lock_memory else {})}
    services = {
        name: {**_service(job, run, image, share, index), "ulimits": limits}
        for index, name in enumerate(replicas.worker_names(job))
    }
    escaped = _escaped(services)
    return {
        "name": project_name(run),
        "services": escaped,
        "networks": {NETWORK: {"labels": {"rsctl.run": run}}},
    }


def common_env(job: Job, share: replicas.Share) -> dict[str, Optional[str]]:
    """What the script finds in every container."""
    env = replicas.script_env(job, share)
    env |= {f"RSCTL_INPUT_{n.upper()}": f"{_INSIDE}/inputs/{n}" for n in job.inputs}
    env["RSCTL_OUTPUT_DIR"] = f"{_INSIDE}/outputs"
    env["RSCTL_CHECKPOINT_DIR"] = f"{_INSIDE}/checkpoints"
    network = job.targets.compose.network
    if network.bandwidth:
        env["RSCTL_NET_BANDWIDTH"] = str(int(network.bandwidth))
    if network.delay:
        env["RSCTL_NET_DELAY"] = f"{float(network.delay):.6f}"
    return env


def _service(job: Job, run: str, image: str, share: replicas.Share, index: int) -> dict[str, Any]:
    options = job.targets.compose
    name = f"worker-{index}"
    env = {**common_env(job, share), **replicas.identity_env(run, "compose", "worker", name)}
    env["RSCTL_CLUSTER"] = replicas.cluster_json(
        "worker", index, replicas.worker_names(job), "eth0"
    )
    env["RSCTL_ATTEMPT"] = None  # known only when the containers are created
    env["RSCTL_READY"] = f"{_INSIDE}/ready"
    service: dict[str, Any] = {
        "image": image,
        "pull_policy": "missing" if job.image.uri else "never",
        "container_name": container_name(run, name),
        "hostname": name,
        **_entry(job, share),
        "environment": env,
        "labels": {"rsctl.run": run, "rsctl.role": "worker", "rsctl.replica": name},
        "networks": [NETWORK],
        "volumes": _volumes(job, run),
        "shm_size": _shm_bytes(job),
        "restart": "no",
        "logging": {"driver": "local", "options": _LOG_OPTIONS},
    }
    if options.cpus:
        service["cpus"] = options.cpus
    if options.memory:
        service["mem_limit"] = int(options.memory)
        service["memswap_limit"] = int(options.memory)
    if options.network.bandwidth or options.network.delay:
        service["cap_add"] = ["NET_ADMIN"]
    if share.gpus[index]:
        service["deploy"] = _gpu_reservation(share.gpus[index])
    return service


def _entry(job: Job, share: replicas.Share) -> dict[str, Any]:
    """With launcher none, command and args replace the image's own, each only if it is given."""
    if job.run.launcher == "none":
        entry: dict[str, Any] = {}
        if job.run.command is not None:
            entry["entrypoint"] = list(job.run.command)
        if job.run.args:
            entry["command"] = replicas.argument_words(job)
        return entry
    return {
        "entrypoint": ["rsctl-launch"],
        "command": replicas.launch_arguments(job, share),
    }


def _volumes(job: Job, run: str) -> list[dict[str, Any]]:
    directory = run_directory(run)
    volumes = [
        _bind(job.outputs or directory / "outputs", "outputs"),
        _bind(job.checkpoints or directory / "checkpoints", "checkpoints"),
        _bind(directory / "ready", "ready"),
    ]
    for name, location in job.inputs.items():
        volumes.append({**_bind(location, f"inputs/{name}"), "read_only": True})
    return volumes


def _bind(source: object, inside: str) -> dict[str, Any]:
    return {
        "type": "bind",
        "source": str(source),
        "target": f"{_INSIDE}/{inside}",
        "bind": {"create_host_path": False},
    }


def _shm_bytes(job: Job) -> int:
    memory = job.targets.compose.memory
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
