"""A fence around the output of commands in CI systems, which obey some texts in a log.

The log of a training, a unit or an error could mask words, forge errors or end the processing of
commands: see `CI_COMMANDS`. rsctl escapes one character of each in the way of JSON, so that JSON
stays the same document. There is no `::stop-commands::` fence: a runner reads the two streams
independently, so text of one stream can come before the fence in the other, and a killed command
never closes the fence.
"""

from __future__ import annotations

import io
import os
import re
import signal
import stat
import subprocess
import sys
from codecs import getincrementaldecoder
from collections.abc import Mapping
from contextlib import suppress
from threading import RLock, Thread
from time import sleep
from typing import IO, Any

from rsctl.runs.stream.sanitize import CI_COMMANDS, INVISIBLE

# .NET compares texts by the rules of a culture, which ignore variation selectors; emoji have them.
_SELECTORS = r"(?<![^\x00-\x7f\s])[\ufe00-\ufe0f]"
_ACTIVE = re.compile(rf"{CI_COMMANDS}|([\x00-\x08\x0b-\x1f\x7f{INVISIBLE}])|({_SELECTORS})")
_LONGEST_TAIL = 64
_POLL_SECONDS = 0.05


def fence_output() -> None:
    """Fence standard output and standard error, unless they are a file or a device.

    A terminal is fenced and is one no longer: Buildkite's agent runs commands in one.
    """
    escape = Escape()
    is_shared = _are_one(sys.stdout, sys.stderr)
    sys.stdout = _fenced(sys.stdout, escape)
    sys.stderr = _fenced(sys.stderr, escape if is_shared else Escape())


def write_workflow_command(line: str) -> None:
    """Write a line of rsctl's own to standard error; the CI system obeys it."""
    sys.stderr.flush()
    raw = _raw(sys.stderr)
    if isinstance(raw, FencedStream):
        raw.write_command(line)
    else:
        sys.stderr.write(line + "\n")


def run_fenced(argv: list[str], cwd: str | None, env: Mapping[str, str]) -> int:
    """Run a command whose output passes the fence; its exit code (128 + N after signal N).

    Signals that end rsctl are passed on to the command. Raises OSError if it cannot be started.
    """
    process = subprocess.Popen(
        argv, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: process.send_signal(number))
    copies = [
        Thread(target=_copy, args=streams)
        for streams in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
    ]
    for copy in copies:
        copy.start()
    # A signal just before a wait, or one that another thread gets, does not interrupt that wait.
    for copy in copies:
        while copy.is_alive():
            copy.join(_POLL_SECONDS)
    while (code := process.poll()) is None:
        sleep(_POLL_SECONDS)
    return code if code >= 0 else 128 - code


def _copy(source: IO[bytes], target: Any) -> None:
    """Copy until the end. A reader of rsctl that has gone ends the command's next write, too."""
    with source, suppress(OSError, ValueError):
        while block := os.read(source.fileno(), 1 << 16):
            target.buffer.write(block)
            target.flush()


class Escape:
    """Escapes the texts of a stream that comes in parts; remembers the line that has begun.

    Two streams into one pipe have one. `lock` keeps what it remembers in the order of writing.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self._line = ""

    def __call__(self, text: str) -> str:
        """The next part of the stream, escaped."""
        known = len(self._line)
        whole = self._line + text
        parts, done = [], known
        for match in _ACTIVE.finditer(whole):
            at = match.start(match.lastindex or 0)
            if at >= known:
                parts += [whole[done:at], _json_escape(whole[at])]
                done = at + 1
        self._line = _tail(whole[whole.rfind("\n") + 1 :])
        return "".join([*parts, whole[done:]])


class FencedStream(io.RawIOBase):
    """A byte stream in UTF-8 whose texts cannot act in a CI system."""

    def __init__(self, raw: io.RawIOBase, escape: Escape | None = None) -> None:
        self._raw = raw
        self._decoder = getincrementaldecoder("utf-8")("surrogateescape")
        self._escape = escape or Escape()

    def writable(self) -> bool:
        """See RawIOBase."""
        return True

    def fileno(self) -> int:
        """See RawIOBase."""
        return self._raw.fileno()

    def write(self, data: Any) -> int:
        """Write all of it. Raises OSError."""
        given = bytes(data)
        with self._escape.lock:
            text = self._escape(self._decoder.decode(given))
            self._write_all(text.encode("utf-8", "surrogateescape"))
        return len(given)

    def write_command(self, line: str) -> None:
        """Write a line as it is. Raises OSError."""
        with self._escape.lock:
            self._escape("\n")
            self._write_all(line.encode("utf-8", "backslashreplace") + b"\n")

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = self._raw.write(rest)
            if written is None:
                raise BlockingIOError("the stream does not block, and takes no more")
            rest = rest[written:]


def _fenced(stream: Any, escape: Escape) -> Any:
    raw = _raw(stream)
    if raw is None or _is_file(raw):
        return stream
    stream.flush()
    fenced = FencedStream(raw, escape)
    return io.TextIOWrapper(
        fenced if raw is stream.buffer else io.BufferedWriter(fenced),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _raw(stream: Any) -> Any:
    """The unbuffered stream below a text stream; None if there is none, as in tests."""
    buffer = getattr(stream, "buffer", None)  # unbuffered itself with PYTHONUNBUFFERED
    return buffer if isinstance(buffer, io.RawIOBase) else getattr(buffer, "raw", None)


def _is_file(raw: Any) -> bool:
    """Whether a stream is redirected to a file or a device, which no CI system reads."""
    mode = os.fstat(raw.fileno()).st_mode
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not raw.isatty())


def _are_one(first: Any, second: Any) -> bool:
    """Whether two streams write into the same pipe or terminal."""
    raws = _raw(first), _raw(second)
    if None in raws:
        return False
    one, other = (os.fstat(raw.fileno()) for raw in raws)
    return os.path.samestat(one, other)


def _json_escape(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{code:04x}"


def _tail(line: str) -> str:
    """The part of a line that decides about the next characters: its end, less blanks before it."""
    line = line.lstrip()
    return line if len(line) <= _LONGEST_TAIL else "x" + line[-_LONGEST_TAIL:]
