"""CloudWatch Logs, as far as reading one stream goes."""

from __future__ import annotations

import time
from typing import Any

from rsctl.targets.sagemaker.emulator.aws_services import AwsEmulator, Service
from tests.kit.builders.commands import GrowingLog


class CloudWatchLogs:
    """Streams that are GrowingLogs, one event a line. `page` is how many events a page has."""

    def __init__(self, emulator: AwsEmulator) -> None:
        self._emulator = emulator
        self._streams: dict[tuple[str, str], GrowingLog] = {}
        self.page = 100
        self.missing = 0
        emulator.add(
            Service("logs", "InvalidParameterException", {"GetLogEvents": self._get_log_events})
        )

    def publish(self, group: str, stream: str, log: GrowingLog) -> None:
        """Have a stream."""
        self._streams[group, stream] = log

    def _get_log_events(self, wanted: dict[str, Any]) -> dict[str, Any]:
        log = self._streams.get((wanted.get("logGroupName", ""), wanted["logStreamName"]))
        if self.missing or log is None:
            self.missing = max(self.missing - 1, 0)
            message = "The specified log stream does not exist."
            raise self._emulator.refuse(400, "ResourceNotFoundException", message)
        token = wanted.get("nextToken", "f/0")
        if not token.startswith("f/") or not token[2:].isdecimal():
            message = "The specified nextToken is invalid."
            raise self._emulator.refuse(400, "InvalidParameterException", message)
        first, now = int(token[2:]), int(time.time() * 1000)
        lines = log.read().decode(errors="replace").splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()
        page = lines[first : first + self.page]
        events = [{"timestamp": now, "message": line, "ingestionTime": now} for line in page]
        return {
            "events": events,
            "nextForwardToken": f"f/{first + len(page)}",
            "nextBackwardToken": f"b/{first}",
        }
