"""Passes on a rank's output in whole lines, for launchers that mix ranks' output.

mpirun passes on all bytes that a rank has written so far, so that the beginning of one rank's line
would be followed by another's. `rank.py` loads this file by its path, without a package: it stands
alone.
"""

from __future__ import annotations

import _thread
import os

TYPE_CHECKING = False  # as in rank.py
if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_BYTES = 65536
_DRAIN_SECONDS = 1.0


class WholeLines:
    """Stands between this process's stdout or stderr and the pipe that it was until now.

    `stream` is its number. Make it before the command is started, which inherits the new one;
    `begin` afterwards, with the stop signals blocked; `end` when the command has ended.
    `marked` gives whole lines the name of the rank that wrote them.
    """

    def __init__(self, stream: int, marked: Callable[[bytes], bytes] = lambda lines: lines) -> None:
        self._marked = marked
        self._stream, self._out = stream, os.dup(stream)
        self._reader, writer = os.pipe()
        os.dup2(writer, stream)
        os.close(writer)
        self._done = _thread.allocate_lock()
        self._is_at_line_start = True

    def begin(self) -> None:
        """Pass on from now on, from a thread."""
        self._done.acquire()
        _thread.start_new_thread(self._pass_on, ())

    def end(self) -> None:
        """Pass on the rest, and end its last line; waits only shortly for descendants that hold
        the pipe.
        """
        os.dup2(self._out, self._stream)
        self._done.acquire(timeout=_DRAIN_SECONDS)
        if not self._is_at_line_start:
            self._write(b"\n")

    def _pass_on(self) -> None:
        held = b""
        while new := os.read(self._reader, _MOST_BYTES):
            held += new
            whole = max(held.rfind(b"\n"), held.rfind(b"\r")) + 1
            if whole or len(held) > _MOST_BYTES:
                self._pass_on_piece(held[: whole or None])
                held = held[whole:] if whole else b""
        if held:
            self._pass_on_piece(held)
        self._done.release()

    def _pass_on_piece(self, piece: bytes) -> None:
        """A piece may begin within a line, whose mark has been written."""
        first = 0 if self._is_at_line_start else piece.find(b"\n") + 1 or len(piece)
        self._write(piece[:first] + self._marked(piece[first:]))

    def _write(self, data: bytes) -> None:
        self._is_at_line_start = data.endswith(b"\n")
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:
            return  # The reader has closed the pipe; that must not change the exit code.
