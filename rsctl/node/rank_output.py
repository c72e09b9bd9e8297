"""The output of the command of one node, or of each of its ranks through one pipe for each, in
whole lines that name the rank.

Processes that share a pipe tear each other's lines: the kernel keeps only writes of up to 4096
bytes together. So would ranks, and so would a command and this process, which prints telemetry.
Here one thread reads them all and is the only one that writes to the node's output.
A line waits for its end, unless it has more than `_MOST_HELD` bytes. The states of progress bars
become lines (`redraws.py`).
"""

from __future__ import annotations

import os
import selectors
import shutil
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic

from rsctl.node import structured_lines
from rsctl.node.rank import RANK_OUTPUT
from rsctl.node.rank_marks import mark_of, with_marks
from rsctl.node.redraws import Redraws
from rsctl.node.threads import stop_signals_blocked

_STDOUT, _STDERR = 1, 2
_READ_BYTES = 65536
_MOST_READS = 1 + 1024 * 1024 // _READ_BYTES
"""Reads that empty a pipe of the largest default capacity (pipe(7): 1 MiB)."""
_MOST_HELD = 256 * 1024
"""Bytes of a line without an end that wait for it: what rsctl's logs keep as one line."""

_REPORT = b'{"rsctl": "exit"'
_REDRAWS = b'{"rsctl": "redraws"'


class _Pipe:
    """One stream of one rank, or of the launcher, whose lines have no mark."""

    def __init__(self, reader: int, stream: int, mark: bytes) -> None:
        os.set_blocking(reader, False)
        self.reader, self.stream, self.mark = reader, stream, mark
        self.text = Redraws()
        self.stderr: _Pipe | None = None  # of the same process

    def read(self) -> bytes:
        """The available bytes; empty if there are none."""
        try:
            return os.read(self.reader, _READ_BYTES)
        except BlockingIOError:
            return b""


class RankOutput:
    """Stands between a node's ranks and its output.

    Make it before the launcher of the ranks is started, with `environ` added to its variables and
    `writers` as its stdout and stderr; `begin` afterwards, `end` when all processes have ended.
    With 0 ranks, only the output of the command itself is read, which has no marks. `outputs` are
    the files that lines of stdout and of stderr go to. Raises OSError where this node can have no
    named pipes.
    """

    def __init__(self, replica: str, ranks: int, outputs: tuple[int, int] = (1, 2)) -> None:
        self._outputs, self._ranks = outputs, ranks
        self._folder = tempfile.mkdtemp(prefix="rsctl-ranks-")
        self._files: list[int] = []
        self._pipes: list[_Pipe] = []
        self._open_line: dict[int, _Pipe] = {}
        self._lock = threading.RLock()
        self._is_ending = False
        try:
            self._wake_reader, self._wake_writer = self._pipe()
            for local_rank in range(ranks):
                self._add(mark_of(replica, local_rank), *self._named_pipes(local_rank))
            stdout, stderr = self._pipe(), self._pipe()
        except OSError:
            self._close()
            raise
        self._add(b"", stdout[0], stderr[0])
        self.writers = (stdout[1], stderr[1])
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables that tell `rank.py` the location of its rank's pipes, if it has any."""
        return {RANK_OUTPUT: self._folder} if self._ranks else {}

    def begin(self) -> None:
        """Pass on from now on, from a thread, also what this process reports itself."""
        structured_lines.write_by(self._write_own)
        with stop_signals_blocked():
            self._thread.start()

    def pass_on_written(self) -> None:
        """Pass on what ended processes have written until now, before this one reports their end.

        A process that is still writing does not hold this up.
        """
        with self._lock:
            for pipe in reversed(self._pipes):  # each stderr before its stdout
                self._take_all(pipe)
            for pipe in self._pipes:
                self._end_line(pipe)

    def end(self) -> None:
        """Pass on the rest, and end lines that have no end."""
        self._is_ending = True
        os.write(self._wake_writer, b"\0")
        self._thread.join()
        structured_lines.write_by(os.write)
        self._close()

    def _pipe(self) -> tuple[int, int]:
        both = os.pipe()
        self._files += both
        return both

    def _named_pipes(self, local_rank: int) -> list[int]:
        """The reading ends of a rank's stdout and stderr.

        We hold their writing ends too, or a pipe would seem closed until its rank has opened it.
        """
        readers = []
        for stream in (_STDOUT, _STDERR):
            path = os.path.join(self._folder, f"{local_rank}.{stream}")
            os.mkfifo(path, 0o600)
            readers.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            self._files += [readers[-1], os.open(path, os.O_WRONLY)]
        return readers

    def _add(self, mark: bytes, stdout: int, stderr: int) -> None:
        pipes = [_Pipe(stdout, _STDOUT, mark), _Pipe(stderr, _STDERR, mark)]
        pipes[0].stderr = pipes[1]
        self._pipes += pipes

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_reader, selectors.EVENT_READ)
            for pipe in self._pipes:
                selector.register(pipe.reader, selectors.EVENT_READ, pipe)
            while not self._is_ending:
                for key, _ in selector.select(self._wait_seconds()):
                    if key.data is not None:
                        self._take(key.data)
                self._pass_on_states()
        for pipe in reversed(self._pipes):  # each stderr before its stdout
            while self._take(pipe):
                pass
        for pipe in self._pipes:
            self._end_line(pipe)

    def _take_all(self, pipe: _Pipe) -> None:
        """Pass on what is in a pipe; a process that writes on does not keep us here."""
        for _ in range(_MOST_READS):
            if not self._take(pipe):
                return

    def _take(self, pipe: _Pipe) -> bool:
        """Pass on what is in a pipe now; whether there was anything.

        What a process wrote to stderr before it wrote to stdout is passed on before: a traceback
        stands before the report of its rank's end.
        """
        with self._lock:
            data = pipe.read()
            if data and pipe.stderr is not None:
                self._take_all(pipe.stderr)
            if data:
                if pipe.stderr is not None and _REPORT in data:
                    self._end_line(pipe.stderr)
                self._feed(pipe, data)
        return bool(data)

    def _wait_seconds(self) -> float | None:
        at = monotonic()
        waits = [wait for pipe in self._pipes if (wait := pipe.text.wait_seconds(at)) is not None]
        return min(waits, default=None)

    def _pass_on_states(self) -> None:
        """Pass on the states of bars that are due while nothing else is written."""
        with self._lock:
            for pipe in self._pipes:
                self._pass_on_lines(pipe, pipe.text.tick(monotonic()))

    def _feed(self, pipe: _Pipe, data: bytes) -> None:
        self._pass_on_lines(pipe, pipe.text.feed(data, monotonic()))
        held = pipe.text.held
        is_open = self._open_line.get(pipe.stream) is pipe
        if held and (is_open or len(held) > _MOST_HELD):
            self._pass_on_lines(pipe, pipe.text.flush(monotonic()))
            self._pass_on_part(pipe)

    def _pass_on_lines(self, pipe: _Pipe, lines: bytes) -> None:
        if not lines:
            return
        opened = self._open_line.pop(pipe.stream, None)
        begun = b""
        if opened is pipe and not lines.startswith(_REDRAWS):
            first = lines.index(b"\n") + 1
            begun, lines = lines[:first], lines[first:]
        elif opened is not None:
            begun = b"\n"
        self._write(pipe.stream, begun + with_marks(structured_lines.apart(lines), pipe.mark))

    def _pass_on_part(self, pipe: _Pipe) -> None:
        opened = self._open_line.get(pipe.stream)
        begun = b"" if opened is pipe else b"\n" * (opened is not None) + pipe.mark
        self._write(pipe.stream, begun + bytes(pipe.text.held))
        self._open_line[pipe.stream] = pipe
        pipe.text.held = bytearray()

    def _end_line(self, pipe: _Pipe) -> None:
        self._pass_on_lines(pipe, pipe.text.end(monotonic()))
        if self._open_line.get(pipe.stream) is pipe:
            self._pass_on_lines(pipe, b"\n")

    def _write_own(self, stream: int, line: bytes) -> int:
        """Write a whole line of this process."""
        with self._lock:
            begun = b"\n" if self._open_line.pop(stream, None) else b""
            self._write(stream, begun + line)
        return len(line)

    def _write(self, stream: int, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._outputs[stream - 1], data) :]
        except OSError:
            return  # The reader has gone; that must not change the exit code.

    def _close(self) -> None:
        for file in self._files:
            with suppress(OSError):
                os.close(file)
        shutil.rmtree(self._folder, ignore_errors=True)
