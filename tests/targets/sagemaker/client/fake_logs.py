"""CloudWatch Logs as its documentation has it, by a clock of its own, with faults."""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rsctl.targets.managed.emulator.http import Reply, Request
from rsctl.targets.sagemaker.emulator.aws_models import problems, service_model
from rsctl.targets.sagemaker.emulator.aws_services import AwsEmulator, Service

GROUP = "/aws/sagemaker/TrainingJobs"
_KIND = {"Content-Type": "application/x-amz-json-1.1"}


class Clock:
    """Seconds since 1970, moved by hand."""

    def __init__(self, start: float) -> None:
        self.now = start

    def __call__(self) -> float:
        return self.now


@dataclass(order=True)
class Entry:
    """One event. `visible` is when it can be read, in seconds; `time` in milliseconds."""

    time: int
    number: int
    stream: str = ""
    text: str = ""
    visible: float = 0.0

    @cached_property
    def encoded(self) -> str:
        return json.dumps(
            {
                "logStreamName": self.stream,
                "timestamp": self.time,
                "message": self.text,
                "ingestionTime": int(self.visible * 1000),
                "eventId": f"{38_000_000_000 + self.number:056d}",
            }
        )


class FakeLogs(AwsEmulator):
    """FilterLogEvents over what `put` has been given.

    `page` is how many events a page has at most. A token is the position of the last event, so that
    what becomes visible before it is not found by going on. With `is_odd`, pages are of any length,
    also empty, out of order, and have events of the page before. The next `stuck` pages that have
    a token are empty and have the same again. More than five requests in a second are refused, and
    counted in `too_fast`.
    """

    def __init__(self, clock: Clock, page: int = 10_000, seed: int = 1) -> None:
        super().__init__("us-east-1")
        self.clock = clock
        self.page = page
        self.is_odd = False
        self.group_from = 0.0
        self.refusals: list[tuple[float, str]] = []
        self.requests: list[float] = []
        self.too_fast = 0
        self.stuck = 0
        self._random = random.Random(seed)
        self._entries: list[Entry] = []
        self._last: list[str] = []
        self.add(Service("logs", "InvalidParameterException", {"FilterLogEvents": dict}))
        self._shape = service_model("logs").operation_model("FilterLogEvents").input_shape

    def put(self, entries: list[Entry]) -> None:
        """Have these events, and those that there were."""
        self._entries = sorted([*self._entries, *entries])

    def answer(self, request: Request) -> Reply:
        self.authorize(request)
        wanted = request.json()
        assert not list(problems(wanted, self._shape))
        now = self.clock()
        self.requests.append(now)
        if sum(now - moment < 1.0 for moment in self.requests[-6:]) > 5:
            self.too_fast += 1
            return self.error(400, "ThrottlingException", "Rate exceeded")
        if self.refusals and now >= self.refusals[0][0]:
            _, code = self.refusals.pop(0)
            status = 500 if code == "InternalFailure" else 400
            return self.error(status, code, "made to fail")
        if now < self.group_from:
            message = "The specified log group does not exist."
            return self.error(400, "ResourceNotFoundException", message)
        return self._page(wanted, now)

    def _page(self, wanted: dict[str, Any], now: float) -> Reply:
        assert wanted["logGroupName"] == GROUP
        prefix = wanted["logStreamNamePrefix"]
        token = wanted.get("nextToken", f"{wanted['startTime']}/-1/0")
        time, number, _ = map(int, token.split("/"))
        if self.stuck and "nextToken" in wanted:
            self.stuck -= 1
            return Reply(200, json.dumps({"events": [], "nextToken": token}).encode(), _KIND)
        index = bisect_left(self._entries, Entry(time, number + 1))
        found: list[str] = []
        last: Entry | None = None
        room = min(self.page, wanted["limit"])
        if self.is_odd:
            room = self._random.choice([0, room // 7, room])
        while index < len(self._entries) and len(found) < room:
            entry = self._entries[index]
            if entry.visible <= now and entry.stream.startswith(prefix):
                found.append(entry.encoded)
                last = entry
            index += 1
        shown = found
        if self.is_odd and found:
            shown = [*found, *self._last[-20:]]
            self._random.shuffle(shown)
        self._last = found
        more = ""
        if index < len(self._entries):
            position = last or Entry(time, number)
            more = f', "nextToken": "{position.time}/{position.number}/{len(self.requests)}"'
        return Reply(200, f'{{"events": [{", ".join(shown)}]{more}}}'.encode(), _KIND)
