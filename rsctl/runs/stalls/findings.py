"""A stall as a finding, and as the first failure of a run that is ended for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rsctl.findings import Finding, error, warning
from rsctl.runs.exit_reports import STARTS, restarts_in_place
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.stalls.verdict_type import Verdict
from rsctl.runs.stream.events import ENDED_EXIT_CODE, STALL, Failure, now
from rsctl.runs.stream.journal import tail_lines
from rsctl.runs.stream.structured import record_of

_MOST_NODES = 8
_TAIL, _LONGEST_TRACEBACK = 400, 60  # lines
_ENDED_PART = re.compile(r"Exception in (thread) |(Process) [\w-]{1,80}:$")
"""How Python announces an exception that ends a part of a program, which may wait for it."""

_OWN = b'{"rsctl": "'
_PRINTED = (b'{"rsctl": "metrics"', b'{"rsctl": "redraws"')


def is_output(lines: bytes) -> bool:
    """Whether a program of the job has printed one of these lines, and not the runtime."""
    return any(
        line and (not line.startswith(_OWN) or line.startswith(_PRINTED))
        for line in lines.split(b"\n")
    )


def stall_finding(verdict: Verdict, description: RunDescription) -> Finding:
    """The finding on a job that has not progressed for `limits.stall`."""
    message = f"the job has made no progress for {description.stall:g} s: {verdict.message}"
    nodes = (verdict.replicas or description.replicas)[:_MOST_NODES]
    message += next(filter(None, (_ended_part(description.run, name) for name in nodes)), "")
    remedy = f"to see what each rank does: rsctl debug {description.run}"
    return warning(STALL, message, remedy, "limits.stall")


def _ended_part(run: str, replica: str) -> str:
    """The last exception in a node's log that ended a thread or a process of a rank; or empty."""
    from rsctl.runs.stream.exceptions import find_exception  # its patterns take time to compile

    part, rank, lines = "", None, list[str]()
    for line in tail_lines(RunFolder(run).log(replica), replica, _TAIL):
        if match := _ENDED_PART.match(line.text):
            part, rank, lines = (match[1] or match[2]).lower(), line.rank, []
        elif record_of(line.text, *STARTS) or restarts_in_place(line):
            part = ""
        elif part and line.rank == rank and len(lines) < _LONGEST_TRACEBACK:
            lines.append(line.text)
    raised = find_exception(lines) if part else None
    if raised is None:
        return ""
    place = f", at {raised.position}" if raised.position else ""
    return f"; a {part} of {rank or replica} has ended by {raised.text}{place}"


def collapse_finding(verdict: Verdict) -> Finding:
    """The cause of a failure of ranks that called different collectives."""
    remedy = "call the same collectives with the same shapes, in the same order, on all ranks"
    return error("collective-mismatch", verdict.message, remedy)


def stall_failure(verdict: Verdict, description: RunDescription, running: Sequence[str]) -> Failure:
    """The first failure of an attempt that is ended for its stall; `running` are its replicas that
    have not ended.
    """
    return Failure(
        replica=next(iter(verdict.replicas), running[0]),
        rank=verdict.guilty[0] if verdict.guilty else None,
        time=now(),
        exit_code=ENDED_EXIT_CODE,
        lines=list(verdict.lines),
        causes=[stall_finding(verdict, description)],
    )


def verdict_replica(verdict: Verdict) -> str | None:
    """The node that the verdict is about, if it is one."""
    return verdict.replicas[0] if len(verdict.replicas) == 1 else None
