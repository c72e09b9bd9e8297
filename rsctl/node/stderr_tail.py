"""The end of a command's stderr, and the failure file that a platform reads it from.

`rank.py` loads this file by its path, without a package: it stands alone. It reads a command's
stderr only where such a platform is, and passes it on at once.
"""

from __future__ import annotations

import _thread
import os
import re

TYPE_CHECKING = False  # as in rank.py
if TYPE_CHECKING:
    from rsctl.node.rank import ExitStatus

LIMIT = 1024
"""Characters that SageMaker takes as a job's FailureReason."""

_KEPT_BYTES = 16384
_PIECE_BYTES = 4096  # What a pipe takes whole: ranks share the stderr that this goes to.
_DRAIN_SECONDS = 1.0
_PLAIN_LINES = 10

_TRACEBACK = "Traceback (most recent call last)"
LOST_PEER = (
    r"[Cc]onnection closed by (?:remote )?peer|Connection reset by peer|Broken pipe|ncclRemoteError"
    r"|remote process exited|(?:reducer|rank) \d+(?: \(\S+\))? (?:was lost|has been silent)"
    r"|(?:ended the run|has ended)[^:\n]*: rank \d+ (?:was lost|left|has been silent)"
)
"""Texts of a failure that follows from another node's."""

_NOISE = re.compile(r'(\[rank\d+\]: ?)?\[?[IW]\d{4} |\s*\{\s*"rsctl"\s*:')
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f]")


class StderrTail:
    """Passes on what a command writes to stderr, and keeps the end of it.

    The command gets `writer` as its stderr; `begin` when it has it, `end` when it has ended.
    """

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self._kept = b""
        self._done = _thread.allocate_lock()

    def begin(self) -> None:
        """Pass on from now on, from a thread. The stop signals must be blocked already."""
        os.close(self.writer)
        self._done.acquire()
        _thread.start_new_thread(self._pass_on, ())

    def end(self) -> str:
        """The last output of the command; waits only briefly for descendants that hold its
        stderr.
        """
        self._done.acquire(timeout=_DRAIN_SECONDS)
        return self._kept.decode(errors="replace")

    def _pass_on(self) -> None:
        held = b""
        while new := os.read(self._reader, _PIECE_BYTES - len(held)):
            piece = held + new
            # A full piece may end in the middle of a line: the rest of it has already arrived.
            whole = piece.rfind(b"\n") + 1 if len(piece) == _PIECE_BYTES else len(piece)
            whole = whole or len(piece)
            held = piece[whole:]
            self._kept = (self._kept + piece[:whole])[-_KEPT_BYTES:]
            _write(piece[:whole])
        self._kept += held
        _write(held)
        self._done.release()


def format_failure(status: ExitStatus, who: str) -> str:
    """How a replica or rank failed, as a sentence: `worker-0 failed (exit code 1)`."""
    how = f"was killed by {status.signal}" if status.signal else "failed"
    hint = f", {_who_killed(status)}" if status.signal == "SIGKILL" else ""
    return f"{who} {how} (exit code {status.code}){hint}"


def _who_killed(status: ExitStatus) -> str:
    """The sender of a SIGKILL, as far as known."""
    if status.oom_kills:
        return "because the kernel killed processes here when memory was exhausted"
    if status.oom_kills == 0:
        return "by an unknown sender; the kernel killed no process here to free memory"
    return "by an unknown sender"


def write_failure_file(path: str, head: str, stderr: str = "") -> None:
    """Write why a node failed to a file, unless it is there: the first failure on a node counts.

    `head` names the replica and how it ended. Of `stderr`, the last traceback or the last lines
    follow, as much of the end as `LIMIT` leaves. One that only lost a peer writes nothing, so that
    the failure of the other node is what the platform shows.
    """
    lines = _last_traceback(stderr)
    if any(re.search(LOST_PEER, line) for line in lines):
        return
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(file, _fit(_clean(head)[:LIMIT], lines).encode())
        os.close(file)
    except OSError:
        return  # The log has it too.


def _last_traceback(stderr: str) -> list[str]:
    """The last traceback with what follows it, or the last lines."""
    lines = [_clean(line.rstrip("\r").rpartition("\r")[2]) for line in stderr.split("\n")]
    lines = [line.rstrip() for line in lines if line.strip() and not _NOISE.match(line)]
    starts = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    return lines[starts[-1] :] if starts else lines[-_PLAIN_LINES:]


def _fit(head: str, lines: list[str]) -> str:
    """The head and as many whole lines of the end as fit; a last line that is too long is cut."""
    room = LIMIT - len(head)
    kept: list[str] = []
    for line in reversed(lines):
        if len(line) + 1 > room:
            if not kept and room > 1:
                kept.append(line[: room - 1])
            break
        kept.append(line)
        room -= len(line) + 1
    return "\n".join([head, *reversed(kept)])


def _clean(text: str) -> str:
    return _CONTROL.sub("", text)


def _write(data: bytes) -> None:
    try:
        while data:
            data = data[os.write(2, data) :]
    except OSError:
        return  # The reader has closed the pipe; that must not change the exit code.
