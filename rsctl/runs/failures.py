"""Which failure was the first, with the end of that replica's log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rsctl.atomic_file import UNREADABLE
from rsctl.findings import Finding, note
from rsctl.job.source_roots import find_module
from rsctl.runs.early_ends import early_end, rank_record
from rsctl.runs.exit_reports import exit_report, restarts_in_place, runtime_finding
from rsctl.runs.failure_comparison import (
    AFTER_A_LOSS,
    TAIL,
    compare_failures,
    rank_records,
    seconds_apart,
)
from rsctl.runs.findings import NO_CAUSES
from rsctl.runs.folder import RunFolder
from rsctl.runs.stream.ends import LOST_PEER, Killer
from rsctl.runs.stream.events import Failure, LogEvent
from rsctl.runs.stream.journal import tail_lines
from rsctl.runs.stream.sanitize import sanitize_line
from rsctl.runs.stream.structured import is_structured, structured

if TYPE_CHECKING:  # and where a job has failed: their patterns take 25 ms to compile
    from rsctl.runs.stream.origins import Origin

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
_NO_WORDS = re.compile(rf"\s|.*(?:{_STEP.pattern}|\d%)", re.IGNORECASE)
"""The lines of a traceback's or a warning's source, of steps and of bars."""
_HARMLESS = re.compile(
    r"\b(?:INFO|WARN(?:ING)?|[Ww]arning)\b|\bwandb: (?!ERROR)|[Rr]etrying|\b[Ss]kipping "
    r"|^Exception (?:ignored|in) |thrown while requesting "
)
"""The lines of libraries that do not say why a program ended."""
_LONGEST_WORDS = 300  # characters
_STEP_LINE = 400  # characters of a line that are examined
_STEPS_SURVIVED, _SECONDS_SURVIVED, _QUICK_SECONDS = 3, 1.0, 0.05
_TOGETHER_SECONDS, _TOGETHER_AT_END = 2.0, 0.5
_LONGEST = 2000  # characters of a line that are examined


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
    together = [f for f in ordered if seconds_apart(ordered[0], f) < _TOGETHER_SECONDS]
    known = killers or {}
    explained = [
        _explained(f, folder, known.get(f.replica, Killer()), replica_on) for f in together
    ]
    explained_alone = [
        f for f in explained if LOST_PEER not in [cause.code for cause in f.causes[:1]]
    ]
    first = (explained_alone or explained)[0]
    left = early_end(rank_records(folder), first) if _has_lost_a_peer(first) else None
    if left is None:
        return compare_failures(first, folder)
    own = [f for f in ordered if (f.replica, f.rank) == (left.replica, left.rank)]
    if own:  # it left by its own failure, and ended slowly
        return _explained(own[0], folder, known.get(left.replica, Killer()), replica_on)
    from rsctl.runs.stream.failure_lines import failure_lines

    return replace(left, lines=failure_lines(line.text for line in _tail(folder, left)[0]))


def _has_lost_a_peer(failure: Failure) -> bool:
    return any(cause.code in AFTER_A_LOSS for cause in failure.causes)


def _explained(
    failure: Failure, folder: RunFolder, killer: Killer, replica_on: Callable[[str], str | None]
) -> Failure:
    from rsctl.runs.stream.diagnosis import known_causes
    from rsctl.runs.stream.failure_lines import failure_lines, has_traceback

    tail, kills = _tail(folder, failure)
    if killer.out_of_memory is None and kills is not None:
        killer = killer._replace(out_of_memory=kills > 0)
    own = _since_last_steps(tail, failure.exit_code)
    logged, reported = failure_lines(line.text for line in own), failure.lines
    origin = _origin(failure, tail)
    findings = [f for f in map(runtime_finding, tail) if f and f.code not in NO_CAUSES]
    signal = failure.signal or origin.signal
    earlier = [line.text for line in own]
    causes = findings or known_causes(logged, failure.exit_code, signal, killer, reported, earlier)
    is_better = has_traceback(reported) and not has_traceback(logged)
    if not causes and (failure.exit_code, signal) == (1, None) and not has_traceback(earlier):
        causes = _last_words(own)
    lines = reported[-_MOST_REPORTED:] if is_better or not logged else logged
    causes = [_with_source(cause, lines, folder) for cause in causes]
    explained = replace(failure, lines=lines, causes=causes, signal=signal)
    return _placed(explained, origin, replica_on)


def _last_words(lines: list[LogEvent]) -> list[Finding]:
    """The last line on standard error of a program that ended itself then, as `sys.exit("text")`
    writes it; none if the line is a step, or other lines came later.

    Lines of standard output that the program wrote just before may come after it.
    """
    from rsctl.runs.stream.exceptions import is_below_error

    said = [one for one in lines if one.text.strip() and not is_structured(one.text)]
    errors = (one for one in reversed(said) if one.stream == "stderr")
    is_told = (one for one in errors if not is_below_error(one.text))
    last = next((one for one in is_told if not _HARMLESS.search(one.text[:_STEP_LINE])), None)
    if last is None or seconds_apart(last, said[-1]) > _TOGETHER_AT_END:
        return []
    if _NO_WORDS.match(last.text[:_STEP_LINE]):
        return []
    text = sanitize_line(last.text)[:_LONGEST_WORDS]
    message = f"the program ended itself with exit code 1; its last line on standard error: {text}"
    remedy = "correct what the line names; to see the lines before it: rsctl logs RUN"
    return [note("exit", message, remedy)]


def _since_last_steps(lines: list[LogEvent], exit_code: int) -> list[LogEvent]:
    """The lines since the training's third-last step: the program survived all errors before it.

    Steps that a program prints together, such as buffered output at its end, do not count. An
    exception that ends Python gives exit code 1: with another one, quick steps suffice.
    """
    least_seconds = _SECONDS_SURVIVED if exit_code == 1 else _QUICK_SECONDS
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
                if is_enough and seconds_apart(line, last) >= least_seconds:
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
    for line in tail_lines(folder.log(replica), replica, TAIL):
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
    return _of_rank(lines, own)[-TAIL:], None


def _of_rank(lines: list[LogEvent], rank: str | None) -> list[LogEvent]:
    return lines if rank is None else [each for each in lines if each.rank in (None, rank)]
