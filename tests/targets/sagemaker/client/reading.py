"""Reading a fake's log by a clock that is moved by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from rsctl.clients.aws import Aws
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import RsctlError
from rsctl.runs.stream.events import LogEvent
from rsctl.targets.base import Pool
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.sagemaker.hosts import Hosts
from rsctl.targets.sagemaker.logs import TrainingLog

from .fake_logs import Clock

JOB = "bert-7f3k2a"
UNIFORM = [Pool(role="worker", count=4)]
GROUPS = [Pool(role="worker", count=2), Pool(role="reducer", count=2)]


def event_time(seconds: float) -> str:
    """A time as events have it."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def node(replica: str, **more: Any) -> str:
    """The runtime's first line."""
    return json.dumps({"rsctl": "node", "replica": replica, **more})


class Reader:
    """A log, its hosts, and the clock that both go by."""

    def __init__(
        self, clock: Clock, pools: list[Pool], cursor: Mapping[str, Any] | None = None
    ) -> None:
        cursor = cursor or {}
        self.clock = clock
        self.hosts = Hosts(JOB, pools, cursor.get("hosts"))
        aws = Aws(Endpoints.of_environment(), "us-east-1", retries=RetryPolicy())
        created = event_time(clock.now - 600)
        self.log = TrainingLog(aws, JOB, self.hosts, cursor, created, clock, clock)
        self.problems: list[Unreachable | RsctlError] = []

    def read(self, seconds: float) -> list[LogEvent]:
        """What comes in so many seconds; troubles are kept."""
        until, found = self.clock.now + seconds, []
        while self.clock.now < until and not self.log.is_complete:
            try:
                found += self.log.read() or []
            except (Unreachable, RsctlError) as problem:
                self.problems.append(problem)
            self.clock.now += 0.1
        return found

    def said(self, seconds: float) -> list[tuple[str | None, str]]:
        """Replicas and texts of the lines that come."""
        return [(line.replica, line.text) for line in self.read(seconds)]
