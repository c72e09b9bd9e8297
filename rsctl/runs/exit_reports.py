"""Reads what launchers and the runtime report in a job's log: exits, restarts and findings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TypeGuard

from rsctl.findings import Finding, note
from rsctl.runs.stream.events import Failure, LogEvent, unix_time
from rsctl.runs.stream.sanitize import sanitize_line
from rsctl.runs.stream.structured import converted, record_of, structured

MOST_FINDINGS = 1000
"""The most findings that a run takes from its job's lines: each is compared with all of them."""

_MORE = note("too-many", "the job reports more findings; see them in its log")

WORKER = re.compile(r"worker-(0|[1-9][0-9]{0,4})")
"""The names of workers."""

_LONGEST = 2000  # characters of a text that the job gives
_SIGNAL = re.compile(r"SIG[A-Z0-9+-]{1,20}")
Locks = dict[str, list[str]]
"""By replica, what each start of its launcher has announced: only that launcher's key fits."""

_MOST_LOCKS = 1000
STARTS = ("node", "exits")
"""The kinds of lines with which a launcher starts."""


class ExitReports:
    """The `exit` lines of a job's launchers, which have the true time, rank, code and signal.

    Any program of the job can print such a line. So the launcher makes a key, which no program of
    the job gets, prints its SHA-256 before it starts one, and the key itself with each `exit` line.
    `starts` is the number of announcements of a replica that count; later ones come from its own
    programs.
    """

    def __init__(self, locks: Locks) -> None:
        self.locks = locks

    def announced(self, line: LogEvent, starts: int = 1) -> None:
        """Keep the lock that a line announces, if it is among the first `starts` of its replica."""
        if record := record_of(line.text, *STARTS):
            known, lock = self.locks.setdefault(line.replica, []), record.get("lock")
            if isinstance(lock, str) and len(known) < min(starts, _MOST_LOCKS):
                known.append(lock)

    def read(self, line: LogEvent) -> Failure | None:
        """The failure in a launcher's line; None for any other line."""
        report = exit_report(line)
        return report if report and self._is_launchers(line, report.replica) else None

    def kept(self, line: LogEvent) -> int | None:
        """The exit code of a node that has failed and is kept (`limits.keep`), in the line of its
        launcher; None for any other line.
        """
        code = record_of(line.text, "kept").get("code")
        is_code = isinstance(code, int) and 0 < code < 256
        return code if is_code and self._is_launchers(line, line.replica) else None

    def _is_launchers(self, line: LogEvent, replica: str) -> bool:
        """Whether a line has a key of the launchers of its own log or of this replica."""
        key = (structured(line.text) or {}).get("key")
        lock = _digest(key) if _is_key(key) else None
        return lock in [*self.locks.get(line.replica, ()), *self.locks.get(replica, ())]


def _digest(key: str) -> str:
    import hashlib  # few runs need it, and each supervisor would load OpenSSL

    return hashlib.sha256(key.encode(errors="replace")).hexdigest()


def _is_key(key: object) -> TypeGuard[str]:
    return isinstance(key, str) and 0 < len(key) < _LONGEST


def restarts_in_place(line: LogEvent) -> bool:
    """Whether a line says that a node is about to start its ranks again: those that have failed
    until then are not why the job fails.
    """
    return bool(record_of(line.text, "restart"))


def without_node(reports: Iterable[Failure], node: str) -> list[Failure]:
    """The reports that do not come from this node's log."""
    return [report for report in reports if (report.log or report.replica) != node]


def exit_report(line: LogEvent) -> Failure | None:
    """The failure that an `exit` line reports, whichever program printed it: see `ExitReports`."""
    record = record_of(line.text, "exit")
    code, rank, signal = record.get("code"), record.get("rank"), record.get("signal")
    if not isinstance(code, int) or isinstance(code, bool) or not 0 < code < 256:
        return None
    replica, time = record.get("replica"), str(record.get("time"))
    is_other = isinstance(replica, str) and WORKER.fullmatch(replica) is not None
    return Failure(
        replica=str(replica) if is_other else line.replica,
        log=line.replica if is_other and replica != line.replica else None,
        time=line.time if unix_time(time) is None else time,
        exit_code=code,
        rank=rank if isinstance(rank, int) else None,
        signal=signal if isinstance(signal, str) and _SIGNAL.fullmatch(signal) else None,
    )


def runtime_finding(line: LogEvent, taken: int = 0) -> Finding | None:
    """The finding in a line of the runtime; None for other lines. After `MOST_FINDINGS`, of which
    `taken` is the number so far, a note says once that there are more.

    Any program of the job can print such a line: each text becomes one line, and it cannot point
    into one of the user's files.
    """
    if taken > MOST_FINDINGS:
        return None
    reported = converted(record_of(line.text, "finding"), Finding)
    if reported is None:
        return None
    if taken == MOST_FINDINGS:
        return _MORE
    remedy = reported.remedy and _short(reported.remedy)
    code, message = _short(reported.code), _short(reported.message)
    return Finding(severity=reported.severity, code=code, message=message, remedy=remedy)


def _short(text: str) -> str:
    return sanitize_line(text[:_LONGEST])


def believable(
    reports: Iterable[Failure], failed: Collection[str], replicas: Collection[str]
) -> list[Failure]:
    """The reports of a job's replicas, from the logs of the failed ones.

    Any program of the job can print such a line.
    """
    return [
        report
        for report in reports
        if (report.log or report.replica) in failed and report.replica in replicas
    ]
