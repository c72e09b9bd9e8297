"""The state of a replica's progress bar: the last part of its output, without a line end yet.

Progress bars overwrite one line by carriage returns, so their output may hold no line for hours.
The writer of a replica's log keeps the bar's latest state in a small file next to it, and the live
view shows it; the log itself gets the line when it ends.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from time import monotonic

from rsctl.atomic_file import open_regular
from rsctl.runs.stream.rank_marks import without_marks
from rsctl.runs.stream.sanitize import sanitize_line

_INTERVAL_SECONDS = 0.5
_MAX_BYTES = 1000


class ProgressBarFile:
    """The file with the latest state of a replica's progress bar."""

    def __init__(self, log: Path) -> None:
        self._path = log.with_name("unfinished")
        self._kept = b""
        self._next_write = 0.0

    def keep(self, text: bytes) -> None:
        """Store the output since the last line end, at most twice a second."""
        state = text[-_MAX_BYTES:] if b"\r" in text else b""
        if state == self._kept or (state and monotonic() < self._next_write):
            return
        self._next_write = monotonic() + _INTERVAL_SECONDS
        self._kept = state
        with suppress(OSError):  # it is for display only, and the disk may be full
            if state:
                self._path.write_bytes(state)
            else:
                self._path.unlink()


def read_progress_bar(log: Path) -> str:
    """The latest state of a replica's progress bar, fit for a terminal; empty if there is none."""
    try:
        with open_regular(log.with_name("unfinished")) as file:
            state = file.read(_MAX_BYTES).decode(errors="replace")
        return sanitize_line(without_marks(state))
    except OSError:
        return ""
