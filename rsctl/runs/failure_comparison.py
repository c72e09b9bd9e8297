"""Whether other processes of a run failed like the first one, by the ends of their logs."""

from __future__ import annotations

import re

from msgspec.structs import replace

from rsctl.runs.early_ends import RankRecord, rank_record
from rsctl.runs.exit_reports import STARTS, WORKER
from rsctl.runs.folder import RunFolder
from rsctl.runs.stream.ends import LOST_PEER
from rsctl.runs.stream.events import Failure, LogEvent, seconds_between
from rsctl.runs.stream.journal import tail_lines
from rsctl.runs.stream.structured import record_of

TAIL = 400
"""The lines at the end of a log that are examined."""

AFTER_A_LOSS = (LOST_PEER, "timeout", "worker-lost", "collective-mismatch", "collective-timeout")
"""The causes of a rank whose peer may have left."""

_NUMBER = re.compile(r"\d+")
_MOST_COMPARED = 64
_ALIKE_SECONDS = 60.0  # a process may end slowly after its exception
_OF_MANY = (
    *AFTER_A_LOSS,
    *("nccl", "rendezvous", "distributed", "pipe", "signal", "killed", "abort"),
)
"""How the codes of causes begin that do not tell the guilty rank from the others."""

_ALIKE = (
    "{count} processes failed alike at the same time, so look at what they share (code, settings, "
    "data, services) rather than at one node"
)
_ALONE = (
    "the other processes only lost this one, so look at what it alone has or does: its node, its "
    "part of the data, and for rank 0 checkpoints, logs and evaluation"
)


def compare_failures(first: Failure, folder: RunFolder) -> Failure:
    """The failure; its first remedy says whether other processes raised the same, or only lost it.

    A launcher ends the processes of its node before they report their exits, so their logs count.
    """
    from rsctl.runs.stream.exceptions import find_exception, without_marks
    from rsctl.runs.stream.failure_lines import has_traceback

    plain = reversed(without_marks(first.lines))
    said = next((_NUMBER.sub("", line) for line in plain if find_exception([line])), None)
    cause = first.causes[0] if first.causes else None
    if cause is None or said is None or first.signal or cause.code.startswith(_OF_MANY):
        return first
    is_same: dict[str, bool] = {}
    for replica in list(filter(WORKER.fullmatch, folder.replicas()))[:_MOST_COMPARED]:
        for line in _last_attempt(folder, replica):
            if seconds_apart(line, first) > _ALIKE_SECONDS:
                continue  # the process survived it
            if has_traceback([line.text]):
                is_same.setdefault(line.rank or replica, False)
            elif _NUMBER.sub("", without_marks([line.text])[0]) == said:
                is_same[line.rank or replica] = True
    count = sum(is_same.values())
    if count > 1 and all(is_same.values()):
        how = _ALIKE.format(count=count)
    elif count == 1 and any(record.kind == "lost" for record in rank_records(folder)):
        how = _ALONE
    else:
        return first
    told = replace(cause, remedy="; ".join(filter(None, (cause.remedy, how))))
    return replace(first, causes=[told, *first.causes[1:]])


def rank_records(folder: RunFolder) -> list[RankRecord]:
    """The records of the last attempt in the ends of all workers' logs."""
    records: list[RankRecord] = []
    for replica in folder.replicas():
        if WORKER.fullmatch(replica):
            records += filter(None, map(rank_record, _last_attempt(folder, replica)))
    return records


def _last_attempt(folder: RunFolder, replica: str) -> list[LogEvent]:
    """The last lines of a replica since its launcher, or its ranks, started for the last time."""
    lines: list[LogEvent] = []
    for line in tail_lines(folder.log(replica), replica, TAIL):
        lines.append(line)
        if not rank_record(line) and record_of(line.text, "restart", *STARTS):
            lines.clear()
    return lines


def seconds_apart(first: Failure | LogEvent, second: Failure | LogEvent) -> float:
    """The seconds between two times; 0 if one of them is not a time."""
    try:
        return seconds_between(first.time, second.time)
    except ValueError:  # a time that the job's own output gives
        return 0.0
