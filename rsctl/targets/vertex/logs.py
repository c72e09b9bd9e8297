"""Reads a job's log from Cloud Logging, every line once.

One page is read at a time, in rounds: a round begins at a time and follows the pages to the end of
the log. If there are few recent entries, a round begins before all of them, and so finds late ones.
After a flood it begins where the last one ended, and only now and then further back. If there are
more recent entries than can be noted, it waits until the older half of them has settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rsctl.clients.errors import NoAnswer
from rsctl.clients.google import Google, body_of, is_transient
from rsctl.clients.google_errors import error_message, google_error
from rsctl.runs.stream.events import LogEvent
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.vertex.dedup_window import PAGE, DedupWindow
from rsctl.targets.vertex.job_address import JobAddress
from rsctl.targets.vertex.log_entries import entry_key, lines_of
from rsctl.targets.vertex.log_rate import LogRateLimiter, project_rate_limiter
from rsctl.targets.vertex.pools import Roles
from rsctl.targets.vertex.server_clock import ServerClock
from rsctl.targets.vertex.timestamps import nanosecond_time, seconds_of, timestamp

_SETTLED, _SETTLED_WHERE_CHEAP = 30.0, 120.0
_LEAST_SETTLED = 0.2
"""Seconds after which an entry that is not visible is no longer expected."""

_CHEAP = PAGE // 2
_MOST_REPEATS = 5
"""A page that is not found in time has the token of the page before, but not without end."""

_REPORTED_AFTER = 120.0


@dataclass
class _Round:
    """A reading from a time on; `is_whole` if nothing before that time is expected."""

    since: str
    started: float
    is_whole: bool
    token: str = ""
    repeats: int = 0


class VertexLog:
    """Reads one job's log; see JobLog. `roles` are the roles of the job's worker pools."""

    def __init__(
        self,
        google: Google,
        address: JobAddress,
        cursor: Mapping[str, Any],
        created: str,
        roles: Roles,
        clock: ServerClock | None = None,
    ) -> None:
        self._google = google
        self._address = address
        self._roles = roles
        self._clock = clock or ServerClock()
        self._factor = google.retries.time_scale
        self._window = DedupWindow(cursor, nanosecond_time(created) or timestamp(0))
        self._limiter = LogRateLimiter(self._factor, self._clock.now())
        self._project_limiter = project_rate_limiter(google.endpoints, address.parent.project)
        self._round: _Round | None = None
        self._ended: float | None = None
        self._is_complete = False

    def read(self) -> list[LogEvent] | None:
        """The next lines in order of time; None if it is not time to ask. See JobLog."""
        now = self._clock.now()
        if self._is_complete or not self._limiter.is_due(now):
            return None
        if not self._project_limiter.allows(now, self._is_last(now)):
            return None
        reading = self._round = self._round or self._begin(now)
        self._limiter.spend(now)
        self._project_limiter.spend(now)
        answer = self._ask(reading)
        if answer.status_code == 429:
            self._back_off(answer)
            return None
        if answer.status_code == 400 and reading.token:  # it is valid only for a while
            self._round = None
            return None
        if is_transient(answer):
            raise Unreachable(f"Cloud Logging: {error_message(answer)}")
        if answer.status_code != 200:
            raise google_error(answer, "targets.vertex.project")
        try:
            page = body_of(answer)
        except NoAnswer as problem:
            raise Unreachable(f"Cloud Logging gives {problem.reason}") from None
        return self._take(page, reading)

    def finish(self, ended: str) -> None:
        """The job ended then. See JobLog."""
        if self._ended is None:
            now = self._clock.now()
            self._ended = seconds_of(ended) or now
            self._limiter.not_after(now)

    @property
    def is_complete(self) -> bool:
        """Whether all has been read, after `finish`."""
        return self._is_complete

    def cursor(self) -> dict[str, Any]:
        """The position where another reader continues."""
        return self._window.cursor()

    def _begin(self, now: float) -> _Round:
        window = self._window
        oldest = now - (seconds_of(window.settled) or 0.0)
        is_whole = (
            len(window) <= _CHEAP
            or not window.has_room()
            or window.is_resumed
            or oldest >= 2 * self._settled_after
            or self._is_last(now)
        )
        # Some entries may have a time in the future.
        since = window.settled if is_whole else min(window.newest, timestamp(now))
        return _Round(since, now, is_whole)

    def _ask(self, reading: _Round) -> Any:
        project = self._address.parent.project
        body = {
            "resourceNames": [f"projects/{project}"],
            "filter": f'resource.type="ml_job" AND resource.labels.job_id="{self._address.id}"'
            f' AND timestamp>="{reading.since}"',
            "orderBy": "timestamp asc",
            "pageSize": PAGE,
        }
        if reading.token:
            body["pageToken"] = reading.token
        try:
            url = f"{self._google.endpoints.google_url('logging')}/v2/entries:list"
            answer = self._google.request("POST", url, retry=False, ok=None, json=body)
        except NoAnswer as problem:
            raise Unreachable(f"Cloud Logging gives no answer: {problem.reason}") from None
        self._clock.correct(answer.headers.get("Date"))
        return answer

    def _back_off(self, answer: Any) -> None:
        """Raises Unreachable if the problem has lasted for long."""
        now = self._clock.now()
        self._limiter.refused(now)
        if now - self._limiter.served > _REPORTED_AFTER * self._factor:
            raise Unreachable(f"Cloud Logging: {error_message(answer)}")

    def _take(self, page: dict[str, Any], reading: _Round) -> list[LogEvent]:
        lines: list[LogEvent] = []
        times: list[str] = []
        for entry in page.get("entries") or []:
            try:
                time, insert_id = entry_key(entry)
            except ValueError:  # the service has no such log, so there is nothing to show
                continue
            times.append(time)
            if self._window.take(time, insert_id):
                lines += lines_of(entry, time, insert_id, self._roles)
        lines.sort(key=lambda line: line.time)
        token = str(page.get("nextPageToken") or "")
        reading.repeats = reading.repeats + 1 if token == reading.token else 0
        reading.token = token if reading.repeats < _MOST_REPEATS else ""
        self._settle(reading, times)
        self._schedule(reading, times, bool(lines))
        return lines

    def _settle(self, reading: _Round, times: list[str]) -> None:
        """Advance the time before which nothing is expected, by the progress of this round."""
        if not reading.is_whole or (reading.token and not times):
            return
        until = timestamp(reading.started - self._settled_after)
        if reading.token:
            until = min(until, times[-1] if times == sorted(times) else min(times))
        self._window.settle(until)

    def _schedule(self, reading: _Round, times: list[str], has_news: bool) -> None:
        """Decide the next request and its time."""
        now = self._clock.now()
        is_last = self._is_last(reading.started)
        is_recent = bool(times) and max(times) > timestamp(reading.started - self._settled_after)
        is_full = is_recent and not self._window.has_room() and not is_last
        has_more = bool(reading.token) and not is_full
        self._limiter.answered(now, has_news, has_more)
        if not has_more:
            self._round = None
        if not reading.token and reading.is_whole:
            self._window.forget_unseen()
            self._is_complete = is_last
        if is_full:
            middle = min(seconds_of(self._window.middle) or now, now)
            self._limiter.not_before(middle + self._settled_after)
        if self._ended is not None:
            self._limiter.not_after(max(now, self._ended + self._least_settled))

    def _is_last(self, started: float) -> bool:
        """Whether a round that began then sees all expected entries."""
        return self._ended is not None and started >= self._ended + self._least_settled

    @property
    def _settled_after(self) -> float:
        """Longer if reading more again costs no further request."""
        if len(self._window) > _CHEAP:
            return self._least_settled
        return max(_SETTLED_WHERE_CHEAP * self._factor, self._least_settled)

    @property
    def _least_settled(self) -> float:
        return max(_SETTLED * self._factor, _LEAST_SETTLED)
