"""Which failure was the first, with the end of that replica's log."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rsctl.findings import Finding
from rsctl.runs.folder import RunFolder
from rsctl.stream.diagnose import LOST_PEER, failure_lines, known_causes
from rsctl.stream.events import Failure, LogEvent, seconds_between
from rsctl.stream.journal import JournalReader, tail_offset
from rsctl.stream.metrics import structured

_TAIL = 400
_TOGETHER_SECONDS = 2.0


def exit_report(line: LogEvent) -> Failure | None:
    """The failure that a rank's `exit` line tells of: it has the true time, rank and signal."""
    record = structured(line.text)
    if not record or record["rsctl"] != "exit":
        return None
    code, rank, signal = record.get("code"), record.get("rank"), record.get("signal")
    return Failure(
        replica=line.replica,
        time=str(record.get("time") or line.time),
        exit_code=code if isinstance(code, int) else 1,
        rank=rank if isinstance(rank, int) else None,
        signal=signal if isinstance(signal, str) else None,
    )


def runtime_finding(line: LogEvent) -> Finding | None:
    """The finding that a line of the runtime tells."""
    record = structured(line.text)
    if not record or record["rsctl"] != "finding":
        return None
    try:
        return msgspec.convert(record, Finding)
    except msgspec.ValidationError:
        return None


def first_failure(failures: Iterable[Failure], folder: RunFolder) -> Failure:
    """The failure that began it all, with the last lines of its replica and their known causes.

    That is the earliest, unless it only lost a peer that failed at about the same time: a rank
    that raises closes its connections before its process is gone, so a peer may overtake it.
    """
    ordered = sorted(failures, key=lambda failure: failure.time)
    together = [f for f in ordered if _seconds_apart(ordered[0], f) < _TOGETHER_SECONDS]
    explained = [_explained(failure, folder) for failure in together]
    own = [f for f in explained if LOST_PEER not in [cause.code for cause in f.causes[:1]]]
    return (own or explained)[0]


def _seconds_apart(first: Failure, second: Failure) -> float:
    try:
        return seconds_between(first.time, second.time)
    except ValueError:  # a time is the runtime's own word
        return 0.0


def _explained(failure: Failure, folder: RunFolder) -> Failure:
    tail = _tail(folder, failure)
    lines = failure_lines(line.text for line in tail)
    findings = [f for f in map(runtime_finding, tail) if f]
    causes = findings or known_causes(lines, failure.exit_code, failure.signal)
    return msgspec.structs.replace(failure, lines=lines, causes=causes)


def _tail(folder: RunFolder, failure: Failure) -> list[LogEvent]:
    """The last lines of the failed replica, up to its report: what follows is the launcher's."""
    path = folder.log(failure.replica)
    reader = JournalReader(path, failure.replica, tail_offset(path, _TAIL))
    lines: list[LogEvent] = []
    while batch := reader.read():
        for line in batch:
            report = exit_report(line)
            if report and report.rank == failure.rank and report.time == failure.time:
                reader.close()
                return lines
            lines.append(line)
    reader.close()
    return lines[-_TAIL:]
