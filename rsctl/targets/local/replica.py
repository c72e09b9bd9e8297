"""A running replica: its command, its output and its exit."""

from __future__ import annotations

import os
import selectors
import subprocess
from pathlib import Path

from rsctl.node.exec_errors import encoded
from rsctl.runs.stream.events import Stream
from rsctl.runs.stream.journal import JournalWriter
from rsctl.runs.stream.metrics import STRUCTURED
from rsctl.runs.stream.progress_bar import ProgressBarFile
from rsctl.targets.local.backend import ReplicaCommand

_CHUNK = 256 * 1024
_REPORT = f'{STRUCTURED}exit"'.encode()
_ANNOUNCEMENT = f'{STRUCTURED}exits"'.encode()


class ReplicaProcess:
    """Starts the command immediately; its output goes to the log and to its reader."""

    def __init__(
        self, name: str, command: ReplicaCommand, log: Path, selector: selectors.BaseSelector
    ) -> None:
        self.name = name
        self.journal = JournalWriter(log)
        self._progress_bar = ProgressBarFile(log)
        self.stopped_at: str | None = None  # when the supervisor asked it to end
        self.killed = False  # by the supervisor
        self.kept = False  # its command has failed, and its node stays: limits.keep
        self._has_spoken = False
        self._selector = selector
        self.process = subprocess.Popen(
            [encoded(word) for word in command.argv],
            cwd=command.cwd,
            env={encoded(name): encoded(value) for name, value in command.env.items()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        for stream, pipe in (("stdout", self.process.stdout), ("stderr", self.process.stderr)):
            if pipe:
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, (self, stream))
        self.open_pipes = 2

    @property
    def running(self) -> bool:
        """Whether the command has not ended yet."""
        return self.process.poll() is None

    def read(self, stream: Stream, pipe: int) -> bytes:
        """Move the content of a pipe into the log; returns its whole lines."""
        data = _read(pipe)
        if data == b"":
            self._close_pipe(stream)
        if not data:
            return b""
        if stream == "stdout" and not self._has_spoken:
            self._has_spoken = True
            line, _, rest = data.partition(b"\n")
            if line.startswith(_ANNOUNCEMENT):  # for the supervisor alone, and for no log
                return line + b"\n" + self._take_lines(stream, rest)
        return self._take_lines(stream, data)

    def _take_lines(self, stream: Stream, data: bytes) -> bytes:
        if stream == "stdout" and _REPORT in data:
            return self._take_report(data)
        return self._take(stream, data)

    def _take_report(self, stdout: bytes) -> bytes:
        """A rank writes to stderr before its report, so this output may still be unread."""
        start = stdout.index(_REPORT)
        lines = [self._take("stdout", stdout[:start])]
        if self.process.stderr and not self.process.stderr.closed:
            lines.append(self._take("stderr", _read(self.process.stderr.fileno()) or b""))
        lines.append(self._take("stdout", stdout[start:]))
        return b"\n".join(lines)

    def _take(self, stream: Stream, data: bytes) -> bytes:
        lines = self.journal.feed(stream, data)
        self._progress_bar.keep(self.journal.unfinished)
        return lines

    def close(self) -> bytes:
        """Stop reading; returns the last line if it had no end."""
        for stream in ("stdout", "stderr"):
            self._close_pipe(stream)
        self._progress_bar.keep(b"")
        return self.journal.close()

    def _close_pipe(self, stream: str) -> None:
        pipe = self.process.stdout if stream == "stdout" else self.process.stderr
        if pipe and not pipe.closed:
            self._selector.unregister(pipe)
            pipe.close()
            self.open_pipes -= 1


def _read(pipe: int) -> bytes | None:
    """The content of a pipe: empty if it has ended, None if more may come."""
    try:
        return os.read(pipe, _CHUNK)
    except BlockingIOError:
        return None
