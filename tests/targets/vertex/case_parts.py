"""How one job is said twice: by the spec, and in the words of google-cloud-aiplatform.

`sdk` are arguments of `CustomContainerTrainingJob.submit`, `custom` those of `CustomJob` and its
`submit`, over what all jobs have. `lacks` are fields of the request that the SDK cannot say: the
others are compared. `package` are arguments of `CustomPythonPackageTrainingJob` in its place,
`container` those of `CustomContainerTrainingJob` itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.kit.rendering import RUN

from .rendering import GOOGLE_REDUCERS, URI

REDUCER = "n1-highcpu-16"
ENV = {
    "RSCTL_OUTPUT_DIR": "/gcs/bucket/runs",
    "RSCTL_CHECKPOINT_DIR": "/gcs/bucket/runs/checkpoints",
    "RSCTL_RUN": RUN,
    "RSCTL_TARGET": "vertex",
}
ENV_RDMA = {**ENV, "RSCTL_NCCL_SETUP": "gib"}
OWN = {"RSCTL_REDUCER_KIND": "rsctl", "RSCTL_TOKEN": "hidden"}
RESERVATION = "projects/my-project/zones/us-central1-a/reservations/mine"
KEY = "projects/p1/locations/us-central1/keyRings/r/cryptoKeys/k"
NETWORK = "projects/123/global/networks/vpc"
TENSORBOARD = "projects/my-project/locations/us-central1/tensorboards/77"
ACCOUNT = "me@my-project.iam.gserviceaccount.com"


class Case(NamedTuple):
    """One job, twice."""

    title: str
    spec: dict[str, Any]
    sdk: dict[str, Any] = {}
    custom: dict[str, Any] = {}
    lacks: tuple[str, ...] = ()
    package: dict[str, Any] = {}
    container: dict[str, Any] = {}


def launch(ranks: int, *command: str, launcher: str = "torchrun") -> list[str]:
    """The arguments of the container."""
    processes = ["--processes", str(ranks)] if launcher == "torchrun" else []
    return ["--launcher", launcher, *processes, "--", *(command or ("python", "train.py"))]


def gpus(enum: str, count: int, machine: str, nodes: int = 1, **more: Any) -> dict[str, Any]:
    """Nodes with GPUs."""
    return {
        "replica_count": nodes,
        "machine_type": machine,
        "accelerator_type": enum,
        "accelerator_count": count,
        "args": launch(count),
        **more,
    }


def google(count: int, image: str = GOOGLE_REDUCERS, machine: str = REDUCER) -> dict[str, Any]:
    """Reduction Server."""
    return {
        "reduction_server_replica_count": count,
        "reduction_server_machine_type": machine,
        "reduction_server_container_uri": image,
    }


def own(count: int, machine: str = REDUCER, loss: str = "fail", **env: str) -> dict[str, Any]:
    """rsctl's reducers: without an image of its own, that pool runs the workers' container."""
    return {
        "reduction_server_replica_count": count,
        "reduction_server_machine_type": machine,
        "environment_variables": {**env, "RSCTL_ON_REDUCER_LOSS": loss, **ENV, **OWN},
    }


def workers(count: int = 1, accelerator: str | None = None, **more: Any) -> dict[str, Any]:
    return {"workers": {"count": count, "accelerator": accelerator, **more}}


def vertex(**options: Any) -> dict[str, Any]:
    return {"targets": {"vertex": options}}


def limits(**values: Any) -> dict[str, Any]:
    return {"limits": values}


V100, T4, L4 = "NVIDIA_TESLA_V100", "NVIDIA_TESLA_T4", "NVIDIA_L4"
A100, A100_80, H100 = "NVIDIA_TESLA_A100", "NVIDIA_A100_80GB", "NVIDIA_H100_80GB"
POOL = {"reducers": {"count": "auto"}}
A2_2 = gpus(A100, 8, "a2-highgpu-8g", 2)
SPEC_A2_2 = workers(2, "a100-40gb:8")
BASE_SDK: dict[str, Any] = {
    "replica_count": 1,
    "machine_type": "n1-standard-4",
    "args": launch(1),
    "environment_variables": ENV,
    "base_output_dir": "gs://bucket/runs",
    "disable_retries": True,
}
CONTAINER = {"container_uri": URI, "command": ["rsctl-launch"]}
