"""Jobs that run a Python package in a prebuilt container."""

from __future__ import annotations

from typing import Any

from .case_parts import Case
from .rendering import GOOGLE_REDUCERS, vertex

_IMAGE = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.1-9:latest"
_PACKAGE = "gs://bucket/pytorch-on-gcp/pytorch-bert/train/python_package/trainer-0.1.tar.gz"
_ARGUMENTS = ["--epochs", "2", "--batch_size", "32", "--model_dir", "gs://bucket/pytorch-birt"]


def _package(uri: str = _PACKAGE) -> dict[str, Any]:
    return {
        "python_package_gcs_uri": uri,
        "python_module_name": "trainer.task",
        "container_uri": _IMAGE,
    }


def _run(uri: str = _PACKAGE, **changes: Any) -> dict[str, Any]:
    run = {"command": None, "package": uri, "module": "trainer.task", "launcher": "none"}
    return {"run": {**run, **changes}, "image": {"uri": _IMAGE}}


PACKAGES = [
    # GoogleCloudPlatform/vertex-ai-samples@04a0ddb, notebooks/official/reduction_server/
    # pytorch_distributed_training_reduction_server.ipynb, with the numbers that it asks to change.
    Case(
        "the notebook of Reduction Server",
        {
            **_run(args=_ARGUMENTS, env={"NCCL_DEBUG": "INFO"}),
            "workers": {"count": 3, "machine": "n1-standard-16", "accelerator": "v100:2"},
            "reducers": {"count": 4, "machine": "n1-highcpu-16"},
        },
        {
            "replica_count": 3,
            "machine_type": "n1-standard-16",
            "accelerator_type": "NVIDIA_TESLA_V100",
            "accelerator_count": 2,
            "reduction_server_replica_count": 4,
            "reduction_server_machine_type": "n1-highcpu-16",
            "reduction_server_container_uri": GOOGLE_REDUCERS,
            "environment_variables": {"NCCL_DEBUG": "INFO"},
            "args": _ARGUMENTS,
        },
        package=_package(),
    ),
    Case(
        "a package on one machine, with checkpoints and data",
        {
            **_run("gs://bucket/other-1.0.tar.gz", args={"epochs": 3, "fast": True}),
            "workers": {"machine": "n1-standard-8"},
            "inputs": {"train": "gs://data/train"},
            "checkpoints": "gs://bucket/saved",
            **vertex(boot_disk="pd-ssd"),
        },
        {
            "replica_count": 1,
            "machine_type": "n1-standard-8",
            "environment_variables": {
                "RSCTL_INPUT_TRAIN": "/gcs/data/train",
                "RSCTL_CHECKPOINT_DIR": "/gcs/bucket/saved",
            },
            "args": ["--epochs", "3", "--fast"],
        },
        package=_package("gs://bucket/other-1.0.tar.gz"),
    ),
]
