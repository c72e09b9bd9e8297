"""Words for the table of jobs: what a spec says, and what sagemaker-core calls it."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.kit.rendering import RUN

ENV = {
    "RSCTL_RUN": RUN,
    "RSCTL_TARGET": "sagemaker",
    "RSCTL_OUTPUT_DIR": "/opt/ml/output/data",
    "RSCTL_CHECKPOINT_DIR": "/opt/ml/output/data/checkpoints",
}
CHECKPOINTS = {"RSCTL_CHECKPOINT_DIR": "/opt/ml/checkpoints"}
KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/mine"
LAMBDA = "arn:aws:lambda:us-east-1:123456789012:function:login"
MLFLOW = "arn:aws:sagemaker:us-east-1:123456789012:mlflow-tracking-server/mine"
AWS_IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121"
VPC = {"subnets": ["subnet-1", "subnet-2"], "security_groups": ["sg-1"]}
SDK_VPC = {"subnets": ["subnet-1", "subnet-2"], "security_group_ids": ["sg-1"]}
FSX = {"id": "fs-0123456789abcdef0", "type": "FSxLustre", "path": "/fsx/mnli"}
LONG = "x" * 300


def no_launch(image: str) -> str:
    """The warning about a vendor's image, in which a job's first program does not exist."""
    return (
        f"warning image.uri: {image} has the name of a vendor's image, and these do not have "
        "rsctl-launch, the job's first program -> set image.source, which delivers rsctl-launch; "
        "or image.base in place of image.uri; or launcher: none"
    )


class Case(NamedTuple):
    """One job, twice."""

    title: str
    spec: dict[str, Any]
    sdk: dict[str, Any] | None


def create(**arguments: Any) -> dict[str, Any]:
    """What differs of `TrainingJob.create`'s arguments."""
    return arguments


def on(machine: str, count: int = 1, volume: int | None = None, **more: Any) -> dict[str, Any]:
    """A resource config."""
    size = {} if volume is None else {"volume_size_in_gb": volume}
    return {"resource_config": {"instance_type": machine, "instance_count": count, **size, **more}}


def launch(*command: str, ranks: int = 1, launcher: str = "torchrun") -> list[str]:
    """The container's arguments."""
    processes = ["--processes", str(ranks)] if launcher == "torchrun" else []
    return ["--launcher", launcher, *processes, "--", *(command or ("python", "train.py"))]


def starts(arguments: list[str], **more: Any) -> dict[str, Any]:
    """An algorithm with these arguments."""
    return {"algorithm_specification": {"container_arguments": arguments, **more}}


def workers(count: int = 1, accelerator: str | None = None, **more: Any) -> dict[str, Any]:
    return {"workers": {"count": count, "accelerator": accelerator, **more}}


def channel(name: str, uri: str, sharded: bool = False, **more: Any) -> dict[str, Any]:
    """A channel from S3."""
    source = {
        "s3_data_type": more.pop("s3_data_type", "S3Prefix"),
        "s3_uri": uri,
        "s3_data_distribution_type": "ShardedByS3Key" if sharded else "FullyReplicated",
        **more.pop("source", {}),
    }
    return {"channel_name": name, "data_source": {"s3_data_source": source}, **more}


def reads(*channels: dict[str, Any]) -> dict[str, Any]:
    """Channels, and the variables that say where they are."""
    names = [each["channel_name"] for each in channels]
    env = {f"RSCTL_INPUT_{name.upper()}": f"/opt/ml/input/data/{name}" for name in names}
    return {"input_data_config": list(channels), "environment": env}


def mounted(name: str, kind: str, path: str = "/", access: str = "ro") -> dict[str, Any]:
    source = {
        "file_system_id": "fs-0123456789abcdef0",
        "file_system_type": kind,
        "directory_path": path,
        "file_system_access_mode": access,
    }
    return {
        "channel_name": name,
        "data_source": {"file_system_data_source": source},
        "input_mode": "File",
    }


def reducers(count: int | str = "auto", nodes: int = 4, gpus: str = "a10g:4", **more: Any) -> Any:
    """A job with reducers."""
    return {**workers(nodes, gpus), "reducers": {"count": count}, **more}
