"""The log file of one replica: `TIME o|e TEXT` a line, written once, read by many.

Times never go back within a file and have a fixed width, so lines sort as bytes. A line's id is
its offset in the file: reading can resume anywhere, without loss or repetition.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from msgspec.structs import replace

from rsctl.atomic_file import open_regular
from rsctl.node.structured_lines import apart
from rsctl.runs.stream.events import TIME_LENGTH, LogEvent, Stream, now
from rsctl.runs.stream.rank_marks import leading_mark, take_mark
from rsctl.runs.stream.redraws import logged_lines
from rsctl.runs.stream.sanitize import without_escapes

MAX_LINE = 256 * 1024
LINE_CONTINUES = b" [too long for one line: it continues in the next]"
"""The end of each piece of a line that is longer than MAX_LINE, except for the last piece."""

BLOCK = 64 * 1024
_CODES: dict[Stream, bytes] = {"stdout": b" o ", "stderr": b" e "}
_STREAMS: dict[bytes, Stream] = {code: name for name, code in _CODES.items()}
_TEXT = TIME_LENGTH + 3
_LONG_AGO = "0001-01-01T00:00:00.000000Z"


def allow_many_files() -> None:
    """Raise this process's limit of open files: each replica's log is one, its pipes are two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1 << 16 if hard == resource.RLIM_INFINITY else min(hard, 1 << 16)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


class JournalWriter:
    """Appends a replica's output, stamped with the time of its arrival.

    Except for the times, the file does not depend on the pieces in which the output arrives. When
    the disk is full, `full` is true: further output is lost and counted in `lost_bytes`, and the
    job continues.
    """

    def __init__(self, path: Path) -> None:
        self.full = False
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o600)
        except OSError as problem:
            if problem.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise
            self._file, self.full = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), True
        size = os.fstat(self._file).st_size
        self._is_torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        self._bar: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self._partial: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self.time = max(now(), _last_time(path) if size else "")  # the clock may have gone back
        """When the latest lines came."""
        self.lost_bytes = 0

    def feed(self, stream: Stream, data: bytes) -> bytes:
        """Take a chunk of output; returns the whole lines in it, with long lines split.

        Of the states of progress bars the file gets only what a log keeps.
        """
        data = _with_breaks(self._partial[stream] + data)
        lines, end, self._partial[stream] = data.rpartition(b"\n")
        if not end:
            return lines
        self.time = max(self.time, now())
        lines = apart(lines)
        kept = logged_lines(lines)
        if kept is not None:
            self._write(stream, kept)
            last = kept[kept.rfind(b"\n") + 1 :]
            state = last[len(leading_mark(last)) :]
            self._bar[stream] = last if state.rfind(b"\r") == 0 else b""  # see `is_bar_state`
        return lines

    @property
    def unfinished(self) -> bytes:
        """The latest state of a progress bar, or the text since the last line end."""
        texts = [*self._bar.values(), *self._partial.values()]
        return max(texts, key=lambda data: data.rfind(b"\r"))

    def close(self) -> bytes:
        """Write the rest, without a line end, and close; returns those lines."""
        rest = [(stream, data) for stream, data in self._partial.items() if data]
        self.time = max(self.time, now())
        lines = []
        for stream, data in rest:
            lines.append(apart(data))
            if (kept := logged_lines(lines[-1])) is not None:
                self._write(stream, kept)
        os.close(self._file)
        return b"\n".join(lines)

    def _write(self, stream: Stream, lines: bytes) -> None:
        stamp = self.time.encode() + _CODES[stream]
        # After a line that was cut short, by a full disk or a killed writer, a new one begins.
        out = b"\n" * self._is_torn + stamp + lines.replace(b"\n", b"\n" + stamp) + b"\n"
        written = 0
        try:
            while written < len(out) and not self.full:
                written += os.write(self._file, out[written:])
        except OSError:
            self.full = True
        self.lost_bytes += len(out) - written
        if written:
            self._is_torn = out[written - 1 : written] != b"\n"


def _with_breaks(lines: bytes) -> bytes:
    """Split lines that are longer than MAX_LINE.

    Each piece begins with the rank's mark, and ends with LINE_CONTINUES unless it is the last one.
    """
    if len(lines) <= MAX_LINE or all(len(line) <= MAX_LINE for line in lines.split(b"\n")):
        return lines
    return b"\n".join(piece for line in lines.split(b"\n") for piece in _pieces(line))


def _pieces(line: bytes) -> Iterator[bytes]:
    mark = leading_mark(line)
    begin, room = len(mark), MAX_LINE - len(mark)
    while len(line) - begin > room:
        end = begin + room - len(LINE_CONTINUES)
        yield mark + line[begin:end] + LINE_CONTINUES
        begin = end
    yield mark + line[begin:]


class JournalCopy:
    """Writes a log whose lines already have times, such as a log from a cloud.

    First it truncates the file to `size` bytes: a killed writer may have written more. Times must
    not go back within a file: a late line stays where it was appended, and gets the time of the
    line before it.
    """

    def __init__(self, path: Path, size: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        os.ftruncate(self._file, min(size, os.fstat(self._file).st_size))
        self._last_time = _last_time(path)
        self.size = os.fstat(self._file).st_size

    def write(self, lines: Iterable[tuple[str, Stream, str]]) -> None:
        """Append lines of (time, stream, text), all or none. Raises OSError."""
        out = bytearray()
        last = self._last_time
        for time, stream, text in lines:
            last = max(last, time)
            stamp = last.encode() + _CODES[stream]
            for part in _with_breaks(text.encode(errors="backslashreplace")).split(b"\n"):
                out += stamp + part + b"\n"
        try:
            written = 0
            while written < len(out):
                written += os.write(self._file, out[written:])
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        self.size += len(out)
        self._last_time = last

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _last_time(path: Path) -> str:
    reader = JournalReader(path, "", tail_offset(path, 1))
    lines = reader.read()
    reader.close()
    return lines[-1].time if lines else _LONG_AGO


class JournalReader:
    """Reads a replica's log from an offset on, block by block, whole lines only."""

    def __init__(self, path: Path, replica: str, offset: int = 0) -> None:
        self.path = path
        self.replica = replica
        self.offset = offset
        self._time = _LONG_AGO
        self._file: int | None = None

    def read(self) -> list[LogEvent]:
        """The next lines, at most a block of them; empty if there is nothing new (yet)."""
        if self._file is None and not self._open():
            return []
        assert self._file is not None  # noqa: S101 - for the type checker
        data = os.pread(self._file, BLOCK, self.offset)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == BLOCK:
            data = os.pread(self._file, BLOCK + MAX_LINE, self.offset)
            end = data.rfind(b"\n") + 1
        offset, self.offset = self.offset, self.offset + end
        events = []
        for line in data[:end].split(b"\n")[:-1]:
            events.append(self._event(line, offset))
            offset += len(line) + 1
        return events

    def close(self) -> None:
        """Close the file, if it was ever opened."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _event(self, line: bytes, offset: int) -> LogEvent:
        stream = _STREAMS.get(line[TIME_LENGTH:_TEXT])
        if stream is None:  # the rest of a line that was cut short within its stamp
            return LogEvent(self._time, self.replica, str(offset), "stdout", _text(line))
        self._time = line[:TIME_LENGTH].decode(errors="replace")
        rank, text = take_mark(self.replica, _text(line[_TEXT:]))
        return LogEvent(self._time, self.replica, str(offset), stream, text, rank)

    def _open(self) -> bool:
        try:
            with open_regular(self.path) as file:
                self._file = os.dup(file.fileno())
        except FileNotFoundError:
            return False
        return True


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def tail_lines(path: Path, replica: str, lines: int) -> Iterator[LogEvent]:
    """At least the last `lines` whole lines of a replica's log; none if it does not exist.

    They have no colours: Python and other programs colour a traceback where FORCE_COLOR is set.
    """
    with closing(JournalReader(path, replica, tail_offset(path, lines))) as reader:
        while batch := reader.read():
            for line in batch:
                yield replace(line, text=without_escapes(line.text))


def tail_offset(path: Path, lines: int) -> int:
    """The offset of the last `lines` whole lines of a log; 0 if it has fewer or does not exist."""
    wanted = lines + 1  # the last line break is the end of the last line
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return 0
    with file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - BLOCK)
            file.seek(start)
            block = file.read(end - start)
            position = len(block)
            while (position := block.rfind(b"\n", 0, position)) >= 0:
                wanted -= 1
                if not wanted:
                    return start + position + 1
            end = start
    return 0
