"""How many jobs may be submitted in a minute, shared by all processes of this RSCTL_HOME."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from rsctl.atomic_file import UNREADABLE
from rsctl.clients.endpoints import Endpoints
from rsctl.target_info import target_info

_MINUTE = 60.0
_MARGIN = 0.1
"""Seconds more than a minute, times the scale of waits: clocks and networks are not exact."""


class SubmissionRate:
    """At most `limit` submissions within any minute; one counts from its beginning to its end.

    A submission reaches the cloud at some time between the two, so that counting it from its end
    on is what keeps the limit there.
    """

    def __init__(
        self, path: Path, limit: int, factor: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._path, self._limit, self._clock = path, limit, clock
        self._span = (_MINUTE + _MARGIN) * factor

    def take(self, name: str) -> bool:
        """Whether one more may be sent now; if so it counts, under a name that is its own."""
        now = self._clock()
        with _Times(self._path) as times:
            recent = {
                f"{n} {t}" if n == name else n: t  # a submission that is sent again counts twice
                for n, t in times.sent.items()
                if now - self._span < t <= now + 1
            }
            allowed = len(recent) < self._limit
            times.sent = {**recent, name: now} if allowed else recent
        return allowed

    def sent(self, name: str) -> None:
        """It was answered."""
        with _Times(self._path) as times:
            times.sent[name] = self._clock()


class _Times:
    """The file of when what was sent, while this process alone has it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.sent: dict[str, float] = {}

    def __enter__(self) -> _Times:
        self._path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            text = os.pread(self._file, os.fstat(self._file).st_size, 0)
            self.sent = msgspec.json.decode(text, type=dict[str, float])
        except UNREADABLE:
            self.sent = {}
        return self

    def __exit__(self, *_: object) -> None:
        text = msgspec.json.encode(self.sent)
        os.pwrite(self._file, text, 0)
        os.ftruncate(self._file, len(text))
        os.close(self._file)


def submission_rate(home: Path, target: str, account: str) -> SubmissionRate | None:
    """The rate of a target's account, such as a project; None if there is no limit."""
    quota = target_info(target).quota
    if quota is None:
        return None
    name = "".join(c if c.isalnum() or c in "-." else "_" for c in f"{target}-{account}")
    factor = Endpoints.of_environment().time_scale
    return SubmissionRate(home / "rates" / f"{name[:120]}.json", quota.submissions, factor)
