"""Which failure was the first, with the end of that replica's log."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from msgspec.structs import replace

from rsctl.atomic_file import UNREADABLE
from rsctl.findings import Finding, note
from rsctl.job.source_roots import find_module
from rsctl.runs.early_ends import RankRecord, early_end, rank_record
from rsctl.runs.findings import NO_CAUSES
from rsctl.runs.folder import RunFolder
from rsctl.runs.stream.ends import LOST_PEER, Killer
from rsctl.runs.stream.events import Failure, LogEvent, seconds_between, unix_time
from rsctl.runs.stream.journal import tail_lines
from rsctl.runs.stream.sanitize import sanitize_line
from rsctl.runs.stream.structured import converted, record_of, structured

if TYPE_CHECKING:  # and where a job has failed: their patterns take 25 ms to compile
    from rsctl.runs.stream.origins import Origin

_TAIL = 400
_MOST_REPORTED = 40
_MISSING = re.compile(r"No module named '([A-Za-z_][\w.]*)'")
_OWN_MODULE = (
    "{name} is in the source itself, in folder {root}: start the job from a folder where "
    "Python finds it"
)
_STEP = re.compile(
    r"(?<![A-Za-z])(epoch|step|iter(?:ation)?)s?(?:\(train\))?[\"']?[ \t:=#\[(]{0,6}"
    r"(\d{1,12}(?:\.\d{1,12})?)\b|\b(\d{1,12})/\d{2,12} \[|\]\[ {0,6}(\d{1,12})/\d{1,12}\]",
    re.IGNORECASE,
)
"""A bar of less than ten counts such as the parts of a checkpoint that a handler saves."""
_STEP_LINE = 400  # characters of a line that are examined
_STEPS_SURVIVED, _SECONDS_SURVIVED = 3, 1.0
MOST_FINDINGS = 1000
"""The most findings that a run takes from its job's lines: each is compared with all of them."""

_MORE = note("too-many", "the job reports more findings; see them in its log")

_LONGEST = 2000  # characters of a text that the job gives
_WORKER = re.compile(r"worker-(0|[1-9][0-9]{0,4})")
_SIGNAL = re.compile(r"SIG[A-Z0-9+-]{1,20}")
_TOGETHER_SECONDS = 2.0
_AFTER_A_LOSS = (LOST_PEER, "timeout", "worker-lost", "collective-mismatch", "collective-timeout")
"""The causes of a rank whose peer may have left."""


_TRACEBACK = "Traceback (most recent call last)"
_NUMBER = re.compile(r"\d+")
_MOST_COMPARED = 64
_ALIKE_SECONDS = 60.0  # a process may end slowly after its exception
_OF_MANY = (
    *_AFTER_A_LOSS,
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
Locks = dict[str, list[str]]
"""By replica, what each start of its launcher has announced: only that launcher's key fits."""

_MOST_LOCKS = 1000
_STARTS = ("node", "exits")
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
        if record := record_of(line.text, *_STARTS):
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
    is_other = isinstance(replica, str) and _WORKER.fullmatch(replica) is not None
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


def first_failure(
    failures: Iterable[Failure],
    folder: RunFolder,
    killers: Mapping[str, Killer] | None = None,
    replica_on: Callable[[str], str | None] = lambda host: None,
) -> Failure:
    """The first failure, with the last lines of its replica and their known causes.

    That is the earliest, unless that replica only lost a peer that failed at about the same time: a
    rank that raises closes its connections before its process is gone, so a peer may overtake it.
    If it lost a peer that ended with exit code 0, that peer is the first.
    `killers` has the target's knowledge of how replicas ended, `replica_on` gives the replica on a
    host. `lines` of a failure are the lines that its target reports for it.
    """
    ordered = sorted(failures, key=lambda failure: failure.time)
    together = [f for f in ordered if _seconds_apart(ordered[0], f) < _TOGETHER_SECONDS]
    known = killers or {}
    explained = [
        _explained(f, folder, known.get(f.replica, Killer()), replica_on) for f in together
    ]
    explained_alone = [
        f for f in explained if LOST_PEER not in [cause.code for cause in f.causes[:1]]
    ]
    first = (explained_alone or explained)[0]
    left = early_end(_rank_records(folder), first) if _has_lost_a_peer(first) else None
    if left is None:
        return _compared(first, folder)
    own = [f for f in ordered if (f.replica, f.rank) == (left.replica, left.rank)]
    if own:  # it left by its own failure, and ended slowly
        return _explained(own[0], folder, known.get(left.replica, Killer()), replica_on)
    from rsctl.runs.stream.failure_lines import failure_lines

    return replace(left, lines=failure_lines(line.text for line in _tail(folder, left)[0]))


def _compared(first: Failure, folder: RunFolder) -> Failure:
    """The failure; its first remedy says whether other processes raised the same, or only lost it.

    A launcher ends the processes of its node before they report their exits, so their logs count.
    """
    from rsctl.runs.stream.exceptions import find_exception, without_marks

    plain = reversed(without_marks(first.lines))
    said = next((_NUMBER.sub("", line) for line in plain if find_exception([line])), None)
    cause = first.causes[0] if first.causes else None
    if cause is None or said is None or first.signal or cause.code.startswith(_OF_MANY):
        return first
    is_same: dict[str, bool] = {}
    for replica in list(filter(_WORKER.fullmatch, folder.replicas()))[:_MOST_COMPARED]:
        for line in _last_attempt(folder, replica):
            if _seconds_apart(line, first) > _ALIKE_SECONDS:
                continue  # the process survived it
            if _TRACEBACK in line.text:
                is_same.setdefault(line.rank or replica, False)
            elif _NUMBER.sub("", without_marks([line.text])[0]) == said:
                is_same[line.rank or replica] = True
    count = sum(is_same.values())
    if count > 1 and all(is_same.values()):
        how = _ALIKE.format(count=count)
    elif count == 1 and any(record.kind == "lost" for record in _rank_records(folder)):
        how = _ALONE
    else:
        return first
    told = replace(cause, remedy="; ".join(filter(None, (cause.remedy, how))))
    return replace(first, causes=[told, *first.causes[1:]])


def _has_lost_a_peer(failure: Failure) -> bool:
    return any(cause.code in _AFTER_A_LOSS for cause in failure.causes)


def _rank_records(folder: RunFolder) -> list[RankRecord]:
    """The records of the last attempt in the ends of all workers' logs."""
    records: list[RankRecord] = []
    for replica in folder.replicas():
        if _WORKER.fullmatch(replica):
            records += _records_of(folder, replica)
    return records


def _records_of(folder: RunFolder, replica: str) -> list[RankRecord]:
    return [record for line in _last_attempt(folder, replica) if (record := rank_record(line))]


def _last_attempt(folder: RunFolder, replica: str) -> list[LogEvent]:
    """The last lines of a replica since its launcher, or its ranks, started for the last time."""
    lines: list[LogEvent] = []
    for line in tail_lines(folder.log(replica), replica, _TAIL):
        lines.append(line)
        if not rank_record(line) and (restarts_in_place(line) or _announces(line)):
            lines.clear()
    return lines


def _announces(line: LogEvent) -> bool:
    """Whether a launcher starts with this line."""
    return bool(record_of(line.text, *_STARTS))


def _seconds_apart(first: Failure | LogEvent, second: Failure | LogEvent) -> float:
    try:
        return seconds_between(first.time, second.time)
    except ValueError:  # a time that the job's own output gives
        return 0.0


def _explained(
    failure: Failure, folder: RunFolder, killer: Killer, replica_on: Callable[[str], str | None]
) -> Failure:
    from rsctl.runs.stream.diagnosis import known_causes
    from rsctl.runs.stream.failure_lines import failure_lines, has_traceback

    tail, kills = _tail(folder, failure)
    if killer.out_of_memory is None and kills is not None:
        killer = killer._replace(out_of_memory=kills > 0)
    own = _since_last_steps(tail)
    logged, reported = failure_lines(line.text for line in own), failure.lines
    origin = _origin(failure, tail)
    findings = [f for f in map(runtime_finding, tail) if f and f.code not in NO_CAUSES]
    signal = failure.signal or origin.signal
    earlier = [line.text for line in own]
    causes = findings or known_causes(logged, failure.exit_code, signal, killer, reported, earlier)
    is_better = has_traceback(reported) and not has_traceback(logged)
    lines = reported[-_MOST_REPORTED:] if is_better or not logged else logged
    causes = [_with_source(cause, lines, folder) for cause in causes]
    explained = replace(failure, lines=lines, causes=causes, signal=signal)
    return _placed(explained, origin, replica_on)


def _since_last_steps(lines: list[LogEvent]) -> list[LogEvent]:
    """The lines since the training's third-last step: the program survived all errors before it.

    Steps that a program prints together, such as buffered output at its end, do not count.
    """
    lowest: dict[str, tuple[int, float, LogEvent]] = {}
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        for match in _STEP.finditer(line.text[:_STEP_LINE]):
            word = (match[1] or "").lower()
            number = float(match[2] or match[3] or match[4])
            count, least, last = lowest.get(word, (0, number + 1, line))
            if number < least:
                lowest[word] = count + 1, number, last
                is_enough = count + 1 >= _STEPS_SURVIVED
                if is_enough and _seconds_apart(line, last) >= _SECONDS_SURVIVED:
                    return lines[index:]
    return lines


def _origin(failure: Failure, tail: list[LogEvent]) -> Origin:
    """A launcher's lines about the failed process, if the process did not report the failure
    itself.
    """
    from rsctl.runs.stream.origins import Origin, find_origin

    if failure.rank is not None or failure.signal is not None:
        return Origin()
    return find_origin("\n".join(line.text[:_LONGEST] for line in tail))


def _placed(failure: Failure, origin: Origin, replica_on: Callable[[str], str | None]) -> Failure:
    """The failure with the rank that a launcher names, and the replica on that rank's host.

    mpirun reports the ranks of all nodes on the chief; other launchers report their own node.
    """
    rank = failure.rank if failure.rank is not None else origin.rank
    replica = (replica_on(origin.host) if origin.host else None) or failure.replica
    log = failure.log if replica == failure.replica else failure.log or failure.replica
    return replace(failure, replica=replica, rank=rank, log=log)


def _with_source(cause: Finding, lines: list[str], folder: RunFolder) -> Finding:
    """The cause; if a missing module is in the job's own source, with its location."""
    missing = [name for line in lines for name in _MISSING.findall(line)]
    if cause.code != "module" or not missing:
        return cause
    with suppress(*UNREADABLE):
        source = folder.description().source
        name = missing[-1].partition(".")[0]
        root = find_module(Path(source), name) if source else None
        if root is not None:
            remedy = _OWN_MODULE.format(name=name, root=root)
            if root != ".":
                remedy += f", for example run.env: {{PYTHONPATH: {root}}}"
            return replace(cause, remedy=remedy)
    return cause


def _tail(folder: RunFolder, failure: Failure) -> tuple[list[LogEvent], int | None]:
    """The last lines of the failed replica, up to its report: the launcher wrote the later lines.

    Lines of other ranks are left out, where lines name their rank and a record of the failed rank
    tells its place on the node.

    Also returns how many processes the kernel ended because memory was exhausted, by that report.
    """
    replica = failure.log or failure.replica
    lines: list[LogEvent] = []
    own: str | None = None
    for line in tail_lines(folder.log(replica), replica, _TAIL):
        report = exit_report(line) or rank_record(line)
        if report and report.rank == failure.rank:
            record = structured(line.text) or {}
            rank = f"{failure.replica}/{record.get('local_rank')}"
            if report.time == failure.time:
                kills = record.get("oom_kills")
                return _of_rank(lines, rank), kills if isinstance(kills, int) else None
            own = None if report.rank is None else rank
        if restarts_in_place(line):
            lines.clear()
        else:
            lines.append(line)
    return _of_rank(lines, own)[-_TAIL:], None


def _of_rank(lines: list[LogEvent], rank: str | None) -> list[LogEvent]:
    return lines if rank is None else [each for each in lines if each.rank in (None, rank)]
