"""Reads one stream of CloudWatch Logs while it grows."""

from __future__ import annotations

from typing import Any

from rsctl.clients.aws import client, code_of, findings

_PAGES_PER_POLL = 50


class LogStream:
    """The log of one build; its group and stream become known while it is prepared."""

    def __init__(self, region: str | None) -> None:
        self._logs = client("logs", region)
        self._token: str | None = None

    def read(self, group: str, stream: str) -> list[str]:
        """The messages that have come since the last call; none if the stream is not there yet.

        Raises RsctlError.
        """
        messages: list[str] = []
        with findings("targets.sagemaker"):
            for _ in range(_PAGES_PER_POLL):
                page = self._page(group, stream)
                messages += [str(event["message"]) for event in page.get("events", ())]
                token = page.get("nextForwardToken")
                if token is None or token == self._token:
                    break
                self._token = token
        return messages

    def _page(self, group: str, stream: str) -> dict[str, Any]:
        from botocore.exceptions import ClientError

        request = {"logGroupName": group, "logStreamName": stream, "startFromHead": True}
        if self._token:
            request["nextToken"] = self._token
        try:
            page: dict[str, Any] = self._logs.get_log_events(**request)
        except ClientError as problem:
            if code_of(problem) != "ResourceNotFoundException":
                raise
            return {}
        return page
