"""Tags of training jobs: AddTags, ListTags, DeleteTags."""

from __future__ import annotations

from collections.abc import Callable

from rsctl.targets.sagemaker.emulator.aws_services import AwsEmulator, Handler, Parameters
from rsctl.targets.sagemaker.emulator.job_record import JobRecord

_MOST = 50


class Tagging:
    """`find` gives the job of an ARN."""

    def __init__(self, emulator: AwsEmulator, find: Callable[[str], JobRecord | None]) -> None:
        self._emulator = emulator
        self._find = find

    def operations(self) -> dict[str, Handler]:
        """The routes of the service."""
        return {"AddTags": self._add, "ListTags": self._list, "DeleteTags": self._delete}

    def _add(self, wanted: Parameters) -> Parameters:
        record = self._record(wanted)
        tags = {**record.tags, **{tag["Key"]: tag["Value"] for tag in wanted["Tags"]}}
        if len(tags) > _MOST:
            raise self._emulator.refuse(400, "ValidationException", f"At most {_MOST} tags.")
        record.tags = tags
        return self._list(wanted)

    def _list(self, wanted: Parameters) -> Parameters:
        tags = self._record(wanted).tags
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    def _delete(self, wanted: Parameters) -> Parameters:
        record = self._record(wanted)
        record.tags = {k: v for k, v in record.tags.items() if k not in wanted["TagKeys"]}
        return {}

    def _record(self, wanted: Parameters) -> JobRecord:
        found = self._find(wanted["ResourceArn"])
        if found is None or found.arn != wanted["ResourceArn"]:
            message = "Requested resource not found."
            raise self._emulator.refuse(400, "ValidationException", message)
        return found
