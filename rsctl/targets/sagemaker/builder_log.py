"""Reads one stream of CloudWatch Logs while it grows."""

from __future__ import annotations

from typing import Any

from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import AwsError

_PAGES_PER_POLL = 50


class LogStream:
    """The log of one build; its group and stream become known while it is prepared."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._token: str | None = None

    def read(self, group: str, stream: str) -> list[str]:
        """The messages since the last call; none if the stream does not exist yet.

        Raises RsctlError.
        """
        messages: list[str] = []
        for _ in range(_PAGES_PER_POLL):
            page = self._page(group, stream)
            messages += [str(event["message"]) for event in page.get("events", ())]
            token = page.get("nextForwardToken")
            if token is None or token == self._token:
                break
            self._token = token
        return messages

    def _page(self, group: str, stream: str) -> dict[str, Any]:
        request = {"logGroupName": group, "logStreamName": stream, "startFromHead": True}
        if self._token:
            request["nextToken"] = self._token
        try:
            return self._aws.request("logs", "get_log_events", request)
        except AwsError as problem:
            if problem.code != "ResourceNotFoundException":
                raise
            return {}
