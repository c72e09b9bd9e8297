"""Google's services as far as a job's client needs them, with a clock that a test moves.

Nothing runs: jobs, log entries and measurements are what a test puts there.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rsctl.targets.managed.emulator.http import Reply, Request, route
from rsctl.targets.vertex.emulator.google_services import GoogleEmulator
from rsctl.targets.vertex.server_clock import ServerClock
from rsctl.targets.vertex.timestamps import nanosecond_time, timestamp

START = 1_800_000_000.0
"""The present at the beginning, in seconds since 1970."""

QUOTA = 60
"""Requests for log entries in any minute, of the whole project."""


class FakeClock(ServerClock):
    """Stands still but for the test."""

    def __init__(self) -> None:
        self.seconds = START

    def now(self) -> float:
        return self.seconds

    def correct(self, date: str | None) -> None:
        """The dates of answers are this machine's."""


class Entry(NamedTuple):
    """An entry of the log, and when it becomes visible."""

    time: str
    insert_id: str
    visible: float
    task: str
    payload: dict[str, Any]

    def shown(self) -> dict[str, Any]:
        return {
            "timestamp": self.time,
            "insertId": self.insert_id,
            "resource": {"type": "ml_job", "labels": {"task_name": self.task}},
            **self.payload,
        }


@dataclass
class LogFaults:
    """What the log service does wrong, each with a probability, by a generator of its own."""

    chance: random.Random = field(default_factory=lambda: random.Random(1))
    repeat: float = 0.0
    shuffle: float = 0.0
    empty: float = 0.0
    unavailable: float = 0.0
    others: int = 0
    """Requests a minute that other users of the project make."""


class FakeGoogle(GoogleEmulator):
    """Custom jobs, their log and measurements, of one project."""

    def __init__(self, project: str = "rehearsal") -> None:
        super().__init__(project)
        # Head and body of an answer are two writes, the second of which would wait for 40 ms.
        self._server.RequestHandlerClass.disable_nagle_algorithm = True  # type: ignore[attr-defined]
        self.clock = FakeClock()
        self.jobs: list[dict[str, Any]] = []
        self.entries: list[Entry] = []
        self.log_faults = LogFaults()
        self.log_requests: deque[float] = deque()
        self.statuses: Counter[int] = Counter()
        self.series: dict[str, list[dict[str, Any]]] = {}
        self.queries: list[dict[str, str]] = []
        self.shows_future = False
        self.at_log: Callable[[], None] = lambda: None
        jobs = "/v1/projects/{project}/locations/{location}/customJobs"
        self.routes += [
            route("create", "POST", jobs, self._create),
            route("list", "GET", jobs, self._list),
            route("get", "GET", jobs + "/{job}", self._get),
            route("cancel", "POST", jobs + "/{job}:cancel", self._cancel),
            route("entries", "POST", "/v2/entries:list", self._entries),
            route("series", "GET", "/v3/projects/{project}/timeSeries", self._series),
        ]

    def environment(self, folder: Path) -> dict[str, str]:
        """What leads clients here."""
        self.access.write_key(folder / "key.json", f"{self.url}/token")
        services = ("AIPLATFORM", "LOGGING", "MONITORING")
        return {
            "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "key.json"),
            **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name}": self.url for name in services},
        }

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)

    def sort(self) -> None:
        """After entries were added."""
        self.entries.sort(key=lambda entry: entry[:2])

    def _create(self, request: Request) -> Reply:
        number = len(self.jobs) + 1
        name = f"projects/123/locations/{request.parts['location']}/customJobs/{number}"
        job = {**request.json(), "name": name, "state": "JOB_STATE_QUEUED"}
        job["createTime"] = timestamp(self.clock.seconds + number)
        self.jobs.append(job)
        return Reply.of(job)

    def _list(self, request: Request) -> Reply:
        wanted = re.fullmatch(r'labels\.([\w-]+)="([\w-]+)"', request.query["filter"])
        assert wanted is not None
        found = [j for j in self.jobs if j.get("labels", {}).get(wanted[1]) == wanted[2]]
        start = int(request.query.get("pageToken", "0"))
        page: dict[str, Any] = {"customJobs": list(reversed(found))[start : start + 1]}
        if start + 1 < len(found):
            page["nextPageToken"] = str(start + 1)
        return Reply.of(page)

    def _find(self, request: Request) -> dict[str, Any]:
        for job in self.jobs:
            if job["name"].endswith(f"/{request.parts['job']}"):
                return job
        raise self.refuse(404, "NOT_FOUND", f"The CustomJob does not exist: {request.path}")

    def _get(self, request: Request) -> Reply:
        return Reply.of(self._find(request))

    def _cancel(self, request: Request) -> Reply:
        job = self._find(request)
        if job["state"] in ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"):
            message = "The job is in a final state and cannot be cancelled."
            raise self.refuse(400, "FAILED_PRECONDITION", message)
        job["state"] = "JOB_STATE_CANCELLING"
        return Reply.of({})

    def _series(self, request: Request) -> Reply:
        self.queries.append(request.query)
        wanted = r'metric\.type="ml\.googleapis\.com/training/([^"]+)"'
        metric = re.search(wanted, request.query["filter"])
        assert metric is not None
        if metric[1] not in self.series:
            raise self.refuse(404, "NOT_FOUND", "Cannot find metric(s) that match type")
        return Reply.of({"timeSeries": self.series[metric[1]]})

    def _entries(self, request: Request) -> Reply:
        self.at_log()
        reply = self._limited() or self._page(request.json())
        self.statuses[reply.status] += 1
        return reply

    def _limited(self) -> Reply | None:
        """Enforce the quota by the test's clock."""
        now, faults = self.clock.seconds, self.log_faults
        while self.log_requests and self.log_requests[0] <= now - 60:
            self.log_requests.popleft()
        if len(self.log_requests) + faults.others >= QUOTA:
            message = "Quota exceeded for quota metric 'Read requests' and limit 'Read requests "
            message += "per minute'"
            return self.error(429, "RESOURCE_EXHAUSTED", message)
        self.log_requests.append(now)
        if faults.chance.random() < faults.unavailable:
            return self.error(503, "UNAVAILABLE", "The service is currently unavailable.")
        return None

    def _page(self, body: dict[str, Any]) -> Reply:
        wanted = re.fullmatch(
            r'resource\.type="ml_job" AND resource\.labels\.job_id="(\d+)" AND timestamp>="(\S+)"',
            body["filter"],
        )
        assert wanted is not None
        assert (body["orderBy"], body["pageSize"]) == ("timestamp asc", 1000)
        assert body["resourceNames"] == [f"projects/{self.project}"]
        since = nanosecond_time(wanted[2])
        assert since is not None
        after = tuple(body["pageToken"].split(" ")) if "pageToken" in body else (since, "")
        faults, now = self.log_faults, self.clock.seconds
        if faults.chance.random() < faults.empty:
            return Reply.of({"nextPageToken": " ".join(after)})
        index = bisect_left(self.entries, after, key=lambda entry: entry[:2])
        found: list[Entry] = []
        present = timestamp(now)
        while index < len(self.entries) and len(found) <= body["pageSize"]:
            entry = self.entries[index]
            if entry.time > present and not self.shows_future:
                break
            if entry.visible <= now and entry[:2] != after:
                found.append(entry)
            index += 1
        page: dict[str, Any] = {}
        if len(found) > body["pageSize"]:
            found.pop()
            page["nextPageToken"] = " ".join(found[-1][:2])
        if found:
            page["entries"] = self._spoiled([entry.shown() for entry in found])
        return Reply.of(page)

    def _spoiled(self, shown: list[dict[str, Any]]) -> list[dict[str, Any]]:
        chance, faults = self.log_faults.chance, self.log_faults
        if faults.repeat:
            shown = [
                e for entry in shown for e in [entry] * (1 + (chance.random() < faults.repeat))
            ]
        if chance.random() < faults.shuffle:
            chance.shuffle(shown)
        return shown
