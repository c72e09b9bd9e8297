"""The container contract: environment, files below /opt/ml, command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from rsctl.targets.managed.emulator.nodes import Kind, Node
from rsctl.targets.sagemaker.emulator.channels import configuration
from rsctl.targets.sagemaker.emulator.files import make_folder, text_of
from rsctl.targets.sagemaker.emulator.hosts import EmulatedHost, resource_config
from rsctl.targets.sagemaker.emulator.job_record import JobRecord

_ROOT = "/opt/ml"
_CHECKPOINTS = "/opt/ml/checkpoints"
_TENSORBOARD = "/opt/ml/output/tensorboard"
_LONGEST_FAILURE = 1024
HOSTNAME = "aws"
"""The result of `gethostname()` in every container, on all hosts. Source:
aws/deep-learning-containers, scripts/docker/pytorch/start_with_right_hostname.sh.
"""


class HostFolder(NamedTuple):
    """A host, and the folder of this machine that is its /opt/ml."""

    host: EmulatedHost
    folder: Path

    @property
    def data(self) -> Path:
        """Where the channels are."""
        return self.folder / "input" / "data"

    @property
    def code(self) -> Path:
        """Where the code for the image's toolkit is, if the job has any."""
        return self.folder / "code"

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints, with any name inside."""
        return self.folder / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        """The folder of TensorBoard's files, with any name inside."""
        return self.folder / "output" / "tensorboard"

    @property
    def failure(self) -> str:
        """The text that the container has written about its failure."""
        return text_of(self.folder / "output" / "failure", _LONGEST_FAILURE)


def prepare_machine(
    machine: HostFolder, machines: list[HostFolder], record: JobRecord, runner: Kind
) -> None:
    """Make the folders and the configuration of a machine. Raises OSError."""
    for name in ("input/config", "input/data", "model", "output/data", "checkpoints"):
        make_folder(machine.folder / name)
    channels = record.get("InputDataConfig", [])
    mode = record["AlgorithmSpecification"]["TrainingInputMode"]
    hosts = [each.host for each in machines]
    contents: dict[str, Any] = {
        "hyperparameters": record.get("HyperParameters", {}),
        "inputdataconfig": configuration(channels, mode, machine.host.group),
        "resourceconfig": resource_config(machine.host, hosts, runner),
    }
    for name, content in contents.items():
        path = machine.folder / "input" / "config" / f"{name}.json"
        path.write_text(json.dumps(content), encoding="utf-8")


def make_node(
    machine: HostFolder, record: JobRecord, more: dict[str, str], start: list[str] | None = None
) -> Node:
    """The program on a machine; `more` are variables that only the emulator needs.

    `start` replaces the program that the image would start itself.
    """
    algorithm = record["AlgorithmSpecification"]
    entrypoint, arguments = (algorithm.get(f"Container{n}") for n in ("Entrypoint", "Arguments"))
    if entrypoint is None and arguments is None:
        entrypoint, arguments = start, [] if start else ["train"]
    return Node(
        name=machine.host.node,
        image=algorithm["TrainingImage"],
        entrypoint=entrypoint,
        args=arguments or [],
        env={
            **record.get("Environment", {}),
            "TRAINING_JOB_NAME": record.name,
            "TRAINING_JOB_ARN": record.arn,
            **more,
        },
        mounts=_mounts(machine, record),
        hostname=HOSTNAME,
    )


def _mounts(machine: HostFolder, record: JobRecord) -> dict[str, Path]:
    """The folders by their paths inside. An image may have others of its own below /opt/ml."""
    parts = ("input", "model", "output", *(["code"] if machine.code.exists() else []))
    mounts = {f"{_ROOT}/{part}": machine.folder / part for part in parts}
    # Without a configuration the folder is the machine's own, and is lost with it.
    checkpoints = record.get("CheckpointConfig") or {}
    mounts[checkpoints.get("LocalPath", _CHECKPOINTS).rstrip("/")] = machine.checkpoints
    tensorboard = (
        record.get("TensorBoardOutputConfig", {}).get("LocalPath", _TENSORBOARD).rstrip("/")
    )
    if tensorboard != _TENSORBOARD:
        mounts[tensorboard] = machine.tensorboard
    return mounts
