"""The diagnosis of a failed replica from its log: the lines to show, and known causes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Optional

from rsctl.findings import Finding, note
from rsctl.known_errors import find_known_errors
from rsctl.stream.causes import CAUSES, LESS_MEMORY
from rsctl.stream.structured import is_structured

_TRACEBACK = "Traceback (most recent call last)"
_INSIDE_GROUP = re.compile(r"(?:\[rank\d+\]:)?\s+(?:\||\+(?! Exception Group))")
_FROM_TORCHRUN = re.compile(r"[DIWE]\d{4} [\d:.]+ .*torch/distributed/")
_TORCHRUN_ERROR = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
_MAX_LINES = 30
_PLAIN_LINES = 10
_LONGEST_LINE = 4096


class Killer(NamedTuple):
    """What is known of who ended a process by a signal.

    `out_of_memory` is whether the kernel ended processes there for want of memory, None where
    nobody knows; `command` is the command of whoever else it was, such as `docker kill`.
    """

    out_of_memory: Optional[bool] = None
    command: Optional[str] = None


def failure_lines(lines: Iterable[str]) -> list[str]:
    """The end of a failed replica's log: its last traceback, else its last lines.

    torchrun's own messages are left out.
    """
    kept = [line for line in lines if not _is_noise(line)]
    starts = [i for i, line in enumerate(kept) if _begins_traceback(line)]
    if len(starts) > 1 and any(line.startswith(_TORCHRUN_ERROR) for line in kept[starts[-1] :]):
        kept = kept[: starts.pop()]
    if not starts:
        return kept[-_PLAIN_LINES:]
    block = kept[_first_of_chain(kept, starts) :]
    return block if len(block) <= _MAX_LINES else [block[0], "...", *block[-_MAX_LINES:]]


def _is_noise(line: str) -> bool:
    return is_structured(line) or _FROM_TORCHRUN.match(line) is not None


def _begins_traceback(line: str) -> bool:
    """Whether a traceback begins here that does not stand inside the one of an exception group."""
    return _TRACEBACK in line and not _INSIDE_GROUP.match(line)


def _first_of_chain(lines: list[str], starts: list[int]) -> int:
    """The last traceback, with those that it was raised from."""
    chosen = starts[-1]
    for start in reversed(starts[:-1]):
        between = "\n".join(lines[start:chosen])
        if not re.search(r"above exception was|During handling of the above", between):
            break
        chosen = start
    return chosen


def known_causes(
    lines: Iterable[str], exit_code: int, signal: str | None, killer: Killer | None = None
) -> list[Finding]:
    """Known causes of a failure, the most specific first, each with a remedy."""
    killer = killer or Killer()
    text = "\n".join(line[:_LONGEST_LINE] for line in lines)  # a job's lines may be made to be slow
    found = [_ended_by(killer.command)] if killer.command else []
    for known in find_known_errors(CAUSES, text):
        cause = known.fill(text)
        found.append(note(cause.code, cause.summary or "", cause.remedy))
    if found:
        return found
    is_killed = signal == "SIGKILL" or exit_code == 137
    if is_killed or killer.out_of_memory:
        found.append(_sigkill(killer.out_of_memory, is_killed))
    if signal == "SIGSEGV" or exit_code == 139:
        found.append(note("crash", "native code crashed", "set PYTHONFAULTHANDLER=1 in run.env"))
    return found


def _ended_by(command: str) -> Finding:
    return note(
        "killed",
        f"somebody ended its container through docker ({command}); it did not fail by itself",
        "look for who did: a user, a script; rsctl cancel is what ends a run as cancelled",
    )


def _sigkill(out_of_memory: bool | None, is_killed: bool) -> Finding:
    """What is known of a SIGKILL, whose sender is not known."""
    if out_of_memory:
        how = "it was killed by SIGKILL, and " if is_killed else ""
        return note(
            "memory",
            f"out of memory: {how}the kernel ended processes there for want of memory",
            f"{LESS_MEMORY}, or raise the memory limit",
        )
    if out_of_memory is False:
        return note(
            "killed",
            "it was killed by SIGKILL, by whom is not known; not by the kernel for want of memory",
            "look for who ends processes there: a user, a script, the platform",
        )
    return note(
        "killed",
        "it was killed by SIGKILL, by whom is not known",
        "if it was for want of memory, the node's memory in `rsctl metrics` and `dmesg` on its "
        "machine show it",
    )
