"""Transfers between S3 and the machines of a job."""

from __future__ import annotations

from rsctl.targets.sagemaker.emulator import channels
from rsctl.targets.sagemaker.emulator.artifacts import Artifacts
from rsctl.targets.sagemaker.emulator.checkpoints import Checkpoints
from rsctl.targets.sagemaker.emulator.contract import HostFolder
from rsctl.targets.sagemaker.emulator.job_record import JobRecord
from rsctl.targets.sagemaker.emulator.s3_objects import FolderObjects
from rsctl.targets.sagemaker.emulator.toolkit import provide_code


class Storage:
    """The data, the checkpoints and the results of one job."""

    def __init__(self, objects: FolderObjects, record: JobRecord) -> None:
        self._objects = objects
        self._record = record
        self._channels = record.get("InputDataConfig", [])
        checkpoints, tensorboard = (
            record.get(f"{n}Config") for n in ("Checkpoint", "TensorBoardOutput")
        )
        self._checkpoints = Checkpoints(objects, checkpoints["S3Uri"]) if checkpoints else None
        self._tensorboard: Checkpoints | None = None
        if tensorboard:
            uri = f"{tensorboard['S3OutputPath'].rstrip('/')}/{record.name}/tensorboard-output"
            self._tensorboard = Checkpoints(objects, uri)
        self._artifacts = Artifacts(objects, record["OutputDataConfig"], record.name)

    @property
    def has_channels(self) -> bool:
        """Whether there is data to be downloaded."""
        return bool(self._channels)

    def fill(self, machines: list[HostFolder]) -> None:
        """Put data and checkpoints on the machines. Raises OSError."""
        hosts = [machine.host for machine in machines]
        folders = {machine.host.name: machine.data for machine in machines}
        channels.provide(self._objects, self._channels, hosts, folders)
        provide_code(self._objects, self._record, machines)
        if self._checkpoints:
            self._checkpoints.forget()
            for machine in machines:
                self._checkpoints.restore(machine.checkpoints)
        if self._tensorboard:
            self._tensorboard.forget()
            for machine in machines:
                self._tensorboard.follow(machine.tensorboard)

    def sync(self) -> None:
        """Store new checkpoints and TensorBoard files. Raises OSError."""
        for each in (self._checkpoints, self._tensorboard):
            if each:
                each.sync()

    def store(self, machines: list[HostFolder]) -> None:
        """Store the results. Raises OSError."""
        self._artifacts.store([machine.folder for machine in machines])
