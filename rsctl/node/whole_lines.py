"""Passes on a rank's output in whole lines, for launchers that mix ranks' output.

mpirun passes on all bytes that a rank has written so far, so that the beginning of one rank's line
would be followed by another's. `rank.py` loads this file by its path, without a package: it stands
alone.
"""

from __future__ import annotations

import _thread
import os
import select
from time import monotonic

TYPE_CHECKING = False  # as in rank.py
if TYPE_CHECKING:
    from collections.abc import Callable

    from rsctl.node.redraws import Redraws

_MOST_BYTES = 65536
_DRAIN_SECONDS = 1.0


class WholeLines:
    """Stands between this process's stdout or stderr and the pipe that it was until now.

    `stream` is its number. Make it before the command is started, which inherits the new one;
    `begin` afterwards, with the stop signals blocked; `end` when the command has ended.
    `text` turns the output into lines, and `marked` gives them the name of the rank.
    """

    def __init__(self, stream: int, text: Redraws, marked: Callable[[bytes], bytes]) -> None:
        self._text, self._marked = text, marked
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
        poll = select.poll()
        poll.register(self._reader)
        while True:
            wait = self._text.wait_seconds(monotonic())
            if not poll.poll(None if wait is None else wait * 1000):
                self._pass_on_lines(self._text.tick(monotonic()))
                continue
            new = os.read(self._reader, _MOST_BYTES)
            if not new:
                break
            self._pass_on_lines(self._text.feed(new, monotonic()))
            if len(self._text.held) > _MOST_BYTES:
                self._pass_on_lines(self._text.flush(monotonic()) + bytes(self._text.held))
                self._text.held.clear()
        self._pass_on_lines(self._text.end(monotonic()))
        self._done.release()

    def _pass_on_lines(self, lines: bytes) -> None:
        """The first may continue a line, whose mark has been written."""
        if not lines:
            return
        if not self._is_at_line_start and lines.startswith(b'{"rsctl": "redraws"'):
            self._write(b"\n")
        first = 0 if self._is_at_line_start else lines.find(b"\n") + 1 or len(lines)
        self._write(lines[:first] + self._marked(lines[first:]))

    def _write(self, data: bytes) -> None:
        self._is_at_line_start = data.endswith(b"\n")
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:
            return  # The reader has closed the pipe; that must not change the exit code.
