"""Transfers between S3 and the machines of a job."""

from __future__ import annotations

from typing import Any

from rsctl.emulators.aws.s3_objects import FolderObjects
from rsctl.emulators.sagemaker import channels
from rsctl.emulators.sagemaker.artifacts import Artifacts
from rsctl.emulators.sagemaker.checkpoints import Checkpoints
from rsctl.emulators.sagemaker.contract import Machine
from rsctl.emulators.sagemaker.job_record import JobRecord
from rsctl.emulators.sagemaker.toolkit import provide_code


class Storage:
    """The data, the checkpoints and the results of one job."""

    def __init__(self, objects: FolderObjects, record: JobRecord) -> None:
        self._objects = objects
        self._record = record
        self._channels = record.get("InputDataConfig", [])
        checkpoints, board = (record.get(f"{n}Config") for n in ("Checkpoint", "TensorBoardOutput"))
        self._checkpoints = Checkpoints(objects, checkpoints["S3Uri"]) if checkpoints else None
        self._board = Checkpoints(objects, _board_uri(board, record.name)) if board else None
        self._artifacts = Artifacts(objects, record["OutputDataConfig"], record.name)

    @property
    def has_channels(self) -> bool:
        """Whether there is data to be downloaded."""
        return bool(self._channels)

    def fill(self, machines: list[Machine]) -> None:
        """Put data and checkpoints on the machines. Raises OSError."""
        hosts = [machine.host for machine in machines]
        folders = {machine.host.name: machine.data for machine in machines}
        channels.provide(self._objects, self._channels, hosts, folders)
        provide_code(self._objects, self._record, machines)
        if self._checkpoints:
            self._checkpoints.forget()
            for machine in machines:
                self._checkpoints.restore(machine.checkpoints)
        if self._board:
            self._board.forget()
            for machine in machines:
                self._board.follow(machine.board)

    def sync(self) -> None:
        """Store what is new of checkpoints and TensorBoard's files. Raises OSError."""
        for each in (self._checkpoints, self._board):
            if each:
                each.sync()

    def store(self, machines: list[Machine]) -> None:
        """Store the results. Raises OSError."""
        self._artifacts.store([machine.folder for machine in machines])


def _board_uri(board: dict[str, Any], job: str) -> str:
    return f"{board['S3OutputPath'].rstrip('/')}/{job}/tensorboard-output"
