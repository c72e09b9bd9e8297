"""Reads the log of a training job, every line once: one FilterLogEvents over all its streams.

A pass over the log is a request for each of its pages, oldest events first; when it has come to
its end, the next begins somewhat before the newest event (`dedup_window`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import AwsError
from rsctl.clients.errors import NoAnswer
from rsctl.findings import RsctlError
from rsctl.runs.stream.events import LogEvent, parse_time
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.sagemaker.dedup_window import DedupWindow
from rsctl.targets.sagemaker.hosts import Hosts
from rsctl.targets.sagemaker.log_rate import PageTimer
from rsctl.targets.sagemaker.pending_lines import LogEntry, PendingLogLines

GROUP = "/aws/sagemaker/TrainingJobs"
"""The log group of all training jobs; it does not exist before an account's first job has logged.
"""

_LATE = 30.0  # seconds after the end in which lines may still arrive
_OLD = 120.0  # the same, with the largest error of a clock
_PAGE = 10_000
_MOST_REPEATS = 5


class TrainingLog:
    """See rsctl.targets.managed.service.JobLog.

    It finds late lines that arrive in the log at most a minute after the lines read at that time;
    in a log with few lines, five minutes.
    """

    def __init__(
        self,
        aws: Aws,
        job: str,
        hosts: Hosts,
        cursor: Mapping[str, Any],
        created: str,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._aws, self._prefix, self._hosts = aws, f"{job}/", hosts
        self._monotonic, self._wall = monotonic, wall
        factor = aws.retries.time_scale
        self._late, self._old = _LATE * factor, _OLD * factor
        self._timer = PageTimer(factor, monotonic)
        self._lines = PendingLogLines(hosts, factor, monotonic)
        floor = int(parse_time(created).timestamp() * 1000)
        self._window = DedupWindow(max(floor, 0), cursor.get("window"))
        self._held_before: dict[str, int] = dict(cursor.get("held", {}))
        self._settled_at: float | None = None
        self._is_complete = False
        self._pass: _Pass | None = None

    @property
    def is_complete(self) -> bool:
        """See JobLog.is_complete."""
        return self._is_complete

    def finish(self, ended: str) -> None:
        """See JobLog.finish."""
        if self._settled_at is None:
            old = parse_time(ended).timestamp() + self._old - self._wall()
            self._settled_at = self._monotonic() + max(0.0, min(self._late, old))
            self._timer.finish()

    def read(self) -> list[LogEvent] | None:
        """See JobLog.read."""
        if self._is_complete or not self._timer.is_due():
            return None
        if self._pass is None:
            self._pass = self._begin()
        page = self._page(self._pass)
        if page is None:
            self._pass = None
            self._timer.page_follows()
            return []
        lines = self._take(page, self._pass)
        if self._pass.continues(page.get("nextToken")):
            self._timer.page_follows()
        else:
            lines += self._end(self._pass)
        lines += self._lines.take_overdue()
        lines.sort(key=attrgetter("time"))
        return lines

    def cursor(self) -> dict[str, Any]:
        """See JobLog.cursor."""
        held = {**self._held_before, **self._lines.oldest_waiting()}
        window = self._window.cursor(held, self._lines.waiting_ids())
        return {"window": window, "held": held, "hosts": self._hosts.cursor()}

    def _begin(self) -> _Pass:
        now = self._monotonic()
        is_last = self._settled_at is not None and now >= self._settled_at
        start = self._window.begin(is_deep=self._timer.is_deep_pass_due() or is_last)
        return _Pass(min([start, *self._held_before.values()]), is_last)

    def _page(self, current: _Pass) -> dict[str, Any] | None:
        """The next page; None if the pass must start again."""
        try:
            page = self._aws.request(
                "logs", "filter_log_events", current.request(self._prefix), retry=False
            )
        except NoAnswer as problem:
            self._timer.back_off()
            raise Unreachable(problem.summary) from None
        except AwsError as problem:
            if problem.code == "ResourceNotFoundException":
                return {}
            if problem.code == "InvalidParameterException" and current.token:
                return None
            self._timer.back_off()
            raise
        except RsctlError:
            self._timer.back_off()
            raise
        current.pages += 1
        return page

    def _take(self, page: dict[str, Any], current: _Pass) -> list[LogEvent]:
        lines: list[LogEvent] = []
        for event in map(LogEntry.of, page.get("events", ())):
            floor = self._window.floor
            if event.time < min(floor, self._held_before.get(event.stream, floor)):
                continue
            if self._window.take(event.id, event.stream, event.time, event.ingested):
                current.has_news = True
                lines += self._lines.take(event)
        return lines

    def _end(self, current: _Pass) -> list[LogEvent]:
        """End a pass; the last one returns the lines that still waited for a name."""
        self._pass, self._held_before = None, {}
        self._window.end()
        self._timer.pass_ended(current.pages, current.has_news)
        self._is_complete = current.is_last and not current.has_news
        return self._lines.take_all() if self._is_complete else []


@dataclass
class _Pass:
    """One reading of the log, page by page, from a time on (milliseconds since 1970).

    `is_last`: it began when late lines were no longer expected.
    """

    start: int
    is_last: bool
    token: str | None = None
    repeats: int = 0
    pages: int = 0
    has_news: bool = False

    def request(self, prefix: str) -> dict[str, Any]:
        """The request for its next page."""
        more = {"nextToken": self.token} if self.token else {}
        log = {"logGroupName": GROUP, "logStreamNamePrefix": prefix}
        return {**log, "startTime": self.start, "limit": _PAGE, **more}

    def continues(self, token: str | None) -> bool:
        """Whether there is a further page, even after an empty one.

        A token that repeats does not lead to a further page.
        """
        self.repeats = self.repeats + 1 if token == self.token else 0
        self.token = token
        return bool(token) and self.repeats < _MOST_REPEATS
