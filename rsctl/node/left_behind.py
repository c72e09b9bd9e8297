"""Finds programs of a job that still run when its command has ended, and end with it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable

from rsctl.node.process_tree import has_children, read_process, tree
from rsctl.node.structured_lines import warning

_SCRIPT = re.compile(r"[\w.-]+\.(?:py|sh)\b")
_MOST_NAMED = 3
_EXEC_SECONDS = 0.2
_POLL_SECONDS = 0.002


def left_behind_finding(replica: str, command: Iterable[str]) -> dict[str, object] | None:
    """A warning of descendants of this process that run a script which the command names, as when
    it has put one into the background. None if there are none.

    Helpers that outlive a script for a moment, such as trackers of resources, run other scripts;
    multiprocessing's fork server names the script from Python 3.14 on.
    """
    if not has_children():
        return None
    scripts = set(_SCRIPT.findall(" ".join(command)))
    below = [process.pid for process in tree(os.getpid()) if process.state != "Z"]
    lines = [_command_line(pid) for pid in below if pid != os.getpid()]
    programs = [line for line in lines if "from multiprocessing." not in line]
    left = [line for line in programs if scripts.intersection(_SCRIPT.findall(line))]
    if not left:
        return None
    named = ", ".join(sorted({line[:100] for line in left})[:_MOST_NAMED])
    ended = f"the command of {replica} has ended with exit code 0, and rsctl has ended {len(left)} "
    message = f"{ended}of its processes that still ran: {named}"
    remedy = "let the command wait for its programs: without & at the end of a line, nohup or a "
    return warning("left-behind", message, f"{remedy}daemon")


def _command_line(pid: int) -> str:
    """The words of a process. The kernel shows none while it starts another program (exec)."""
    deadline = time.monotonic() + _EXEC_SECONDS
    try:
        while not (line := _read(pid)) and time.monotonic() < deadline:
            if read_process(pid).state == "Z":
                break
            time.sleep(_POLL_SECONDS)
    except OSError:  # it has just ended
        return ""
    return line


def _read(pid: int) -> str:
    with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
        return file.read().rstrip("\0").replace("\0", " ")
