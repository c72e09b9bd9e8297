"""The log of one replica on disk: `TIME o|e TEXT` a line, written once, read by many.

Times never go back within a file and have a fixed width, so lines sort as bytes. A line's id is
its offset in the file: reading can resume anywhere, without loss or repetition.
"""

from __future__ import annotations

import os
from pathlib import Path

from rsctl.stream.events import TIME_LENGTH, LogEvent, Stream, now

MAX_LINE = 256 * 1024
BLOCK = 256 * 1024
_CODES: dict[Stream, bytes] = {"stdout": b"o", "stderr": b"e"}
_STREAMS: dict[bytes, Stream] = {code: name for name, code in _CODES.items()}
_TEXT = TIME_LENGTH + 3


class JournalWriter:
    """Appends what a replica printed, stamped with the time of its arrival.

    When the disk is full the lines are lost, counted in `lost_bytes`, and the job goes on.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._partial: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self._last_time = ""
        self.lost_bytes = 0

    def feed(self, stream: Stream, data: bytes) -> bytes:
        """Take a chunk of output; returns the whole lines in it, as they were written."""
        data = self._partial[stream] + data
        end = data.rfind(b"\n")
        if end < 0 and len(data) <= MAX_LINE:
            self._partial[stream] = data
            return b""
        lines, rest = (data[:end], data[end + 1 :]) if end >= 0 else (data, b"")
        self._partial[stream] = rest
        lines = _with_breaks(lines)
        self._write(stream, lines)
        return lines

    def close(self) -> bytes:
        """Write what is left without a line end and close; returns those lines."""
        rest = []
        for stream, data in self._partial.items():
            if data:
                rest.append(_with_breaks(data))
                self._write(stream, rest[-1])
        os.close(self._file)
        return b"\n".join(rest)

    def _write(self, stream: Stream, lines: bytes) -> None:
        self._last_time = max(self._last_time, now())
        stamp = b"%s %s " % (self._last_time.encode(), _CODES[stream])
        out = stamp + lines.replace(b"\n", b"\n" + stamp) + b"\n"
        while out:
            try:
                out = out[os.write(self._file, out) :]
            except OSError:
                self.lost_bytes += len(out)
                return


def _with_breaks(lines: bytes) -> bytes:
    """Break lines that are longer than MAX_LINE."""
    if len(lines) <= MAX_LINE or all(len(line) <= MAX_LINE for line in lines.split(b"\n")):
        return lines
    pieces = (
        line[i : i + MAX_LINE]
        for line in lines.split(b"\n")
        for i in range(0, max(len(line), 1), MAX_LINE)
    )
    return b"\n".join(pieces)


class JournalReader:
    """Reads a replica's log from an offset on, block by block, whole lines only."""

    def __init__(self, path: Path, replica: str, offset: int = 0) -> None:
        self.path = path
        self.replica = replica
        self.offset = offset
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
            text = line[_TEXT:].decode(errors="backslashreplace")
            stream = _STREAMS.get(line[TIME_LENGTH + 1 : TIME_LENGTH + 2], "stdout")
            stamp = line[:TIME_LENGTH].decode(errors="replace")
            events.append(LogEvent(stamp, self.replica, str(offset), stream, text))
            offset += len(line) + 1
        return events

    def close(self) -> None:
        """Close the file, if it was ever opened."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> bool:
        try:
            self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        return True


def tail_offset(path: Path, lines: int) -> int:
    """The offset of the last `lines` lines of a log; 0 if it has fewer or does not exist."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return 0
    with path.open("rb") as file:
        end, found = size, 0
        while end:
            start = max(0, end - BLOCK)
            file.seek(start)
            block = file.read(end - start)
            position = len(block) - 1 if end == size and block.endswith(b"\n") else len(block)
            while (position := block.rfind(b"\n", 0, position)) >= 0:
                found += 1
                if found == lines:
                    return start + position + 1
            end = start
    return 0
