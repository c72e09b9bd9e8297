"""Rate limits of requests for log entries: of one job, and of all jobs of a project.

Cloud Logging answers 60 such requests a minute for a whole project, from all clients, and this
limit cannot be raised. One job's log takes at most half of it, and all jobs that a process watches
take less than the whole. Ended jobs come first, since they need one request each.
"""

from __future__ import annotations

import random
from collections import deque

from rsctl.clients.endpoints import Endpoints

PER_MINUTE = 30.0
_LEAST_PER_MINUTE = 4.0
_BURST = 10
_RECOVERY = 1.0
"""Requests a minute that each answer adds again after a refusal has halved the rate."""

_FIRST_WAIT, _LONGEST_WAIT = 2.0, 8.0
_LONGEST_QUIET_WAIT, _QUIET = 20.0, 600.0
_FIRST_BACKOFF, _LONGEST_BACKOFF = 5.0, 60.0


_OF_PROJECT, _OF_LIVE_JOBS = 56, 44
"""Requests within any minute for all jobs of a project, and for the active ones."""


class ProjectRateLimiter:
    """Limits this process's requests for all jobs of a project. Times as in RateLimiter."""

    def __init__(self, factor: float) -> None:
        self._minute = 60.0 * factor
        self._spent: deque[float] = deque()

    def allows(self, now: float, is_last: bool) -> bool:
        """Whether a request may be made; `is_last` if it may well be a job's last one."""
        while self._spent and not 0 <= now - self._spent[0] < self._minute:
            self._spent.popleft()
        return len(self._spent) < (_OF_PROJECT if is_last else _OF_LIVE_JOBS)

    def spend(self, now: float) -> None:
        """A request is made."""
        self._spent.append(now)


_projects: dict[tuple[Endpoints, str], ProjectRateLimiter] = {}


def project_rate_limiter(endpoints: Endpoints, project: str) -> ProjectRateLimiter:
    """The limiter that this process has for a project, whichever job a request is for."""
    limiter = ProjectRateLimiter(endpoints.time_scale)
    return _projects.setdefault((endpoints, project), limiter)


class LogRateLimiter:
    """Limits the requests for one job's log, fewer while nothing new comes or after refusals.

    Times are in seconds of the caller's clock; `factor` scales all waits.
    """

    def __init__(self, factor: float, now: float) -> None:
        self._factor = factor
        self._rate = PER_MINUTE
        self._paid_until = 0.0
        self._due = 0.0
        self._wait = _FIRST_WAIT
        self._refusals = 0
        self._quiet_since = now
        self.served = now

    def is_due(self, now: float) -> bool:
        """Whether a request may be made, and is worth it."""
        return now >= max(self._due, self._paid_until - self._gap * (_BURST - 1))

    def spend(self, now: float) -> None:
        """A request is made."""
        self._paid_until = max(self._paid_until, now) + self._gap

    def answered(self, now: float, has_news: bool, has_more: bool) -> None:
        """Record an answer; the next request is due now if there is more, otherwise later."""
        self._refusals = 0
        self.served = now
        self._rate = min(self._rate + _RECOVERY, PER_MINUTE)
        if has_news or has_more:
            self._quiet_since, self._wait = now, _FIRST_WAIT
            self._due = now if has_more else now + self._wait * self._factor
            return
        is_quiet = now - self._quiet_since > _QUIET * self._factor
        longest = _LONGEST_QUIET_WAIT if is_quiet else _LONGEST_WAIT
        self._due = now + self._wait * self._factor
        self._wait = min(self._wait * 1.4, longest)

    def refused(self, now: float) -> None:
        """Too many requests, by this process or by others: back off."""
        self._refusals += 1
        self._rate = max(self._rate / 2, _LEAST_PER_MINUTE)
        bound = min(_FIRST_BACKOFF * 2.0 ** (self._refusals - 1), _LONGEST_BACKOFF)
        self._due = now + self._factor * random.uniform(bound / 2, bound)  # noqa: S311 - jitter

    def not_before(self, time: float) -> None:
        """Nothing new is expected until then."""
        self._due = max(self._due, time)

    def not_after(self, time: float) -> None:
        """Do not wait longer than until then."""
        if not self._refusals:
            self._due = min(self._due, time)

    @property
    def _gap(self) -> float:
        """Seconds from one request to the next, in the long run."""
        return 60.0 / self._rate * self._factor
