"""A fence around the output of commands in CI systems, which obey some texts in a log.

GitHub Actions obeys `::NAME::` at the begin of a line and `##[NAME]` anywhere in one, on both
streams (actions/runner: `src/Runner.Common/ActionCommand.cs`). The log of a training, a unit or an
error could mask words, forge errors or end the processing of commands. Azure Pipelines obeys
`##vso[`, TeamCity `##teamcity[`, and GitLab `section_start:` before a control character.

rsctl escapes one character of each in the way of JSON, so that JSON stays the same document. There
is no `::stop-commands::` fence: a runner reads the two streams independently, so text of one stream
can come before the fence in the other, and a killed command never closes the fence.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from codecs import getincrementaldecoder
from typing import Any

from rsctl.runs.stream.sanitize import INVISIBLE

_ACTIVE = re.compile(
    r"(?:^|(?<=\n))[^\S\n]*:(:)"
    r"|##(?:vso|teamcity)?(\[)"
    r"|section_(?:start|end)(:)"
    rf"|([\x00-\x08\x0b-\x1f\x7f-\x9f{INVISIBLE}])"
)
_LONGEST_TAIL = 64


def fence_output() -> None:
    """Fence standard output and standard error, unless they are a terminal or a file."""
    sys.stdout = _fenced(sys.stdout)
    sys.stderr = _fenced(sys.stderr)


def write_workflow_command(line: str) -> None:
    """Write a line of rsctl's own to standard error; the CI system obeys it."""
    sys.stderr.flush()
    raw = _raw(sys.stderr)
    if isinstance(raw, FencedStream):
        raw.write_unfenced(line.encode("utf-8", "backslashreplace") + b"\n")
    else:
        sys.stderr.write(line + "\n")


class Escape:
    """Escapes the texts of a stream that comes in parts; remembers the line that has begun."""

    def __init__(self) -> None:
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

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw
        self._decoder = getincrementaldecoder("utf-8")("surrogateescape")
        self._escape = Escape()

    def writable(self) -> bool:
        """See RawIOBase."""
        return True

    def isatty(self) -> bool:
        """See RawIOBase."""
        return self._raw.isatty()

    def fileno(self) -> int:
        """See RawIOBase."""
        return self._raw.fileno()

    def write(self, data: Any) -> int:
        """Write all of it. Raises OSError."""
        given = bytes(data)
        text = self._escape(self._decoder.decode(given))
        self.write_unfenced(text.encode("utf-8", "surrogateescape"))
        return len(given)

    def write_unfenced(self, data: bytes) -> None:
        """Write bytes as they are. Raises OSError."""
        rest = memoryview(data)
        while rest:
            written = self._raw.write(rest)
            if written is None:
                raise BlockingIOError("the stream does not block, and takes no more")
            rest = rest[written:]


def _fenced(stream: Any) -> Any:
    raw = _raw(stream)
    if raw is None or stream.isatty() or _is_file(raw):
        return stream
    stream.flush()
    fenced = FencedStream(raw)
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
    return stat.S_ISREG(mode) or stat.S_ISCHR(mode)


def _json_escape(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{code:04x}"


def _tail(line: str) -> str:
    """The part of a line that decides about the next characters: its end, or that it is blank."""
    if len(line) <= _LONGEST_TAIL:
        return line
    return " " if line.isspace() else "x" + line[-_LONGEST_TAIL:]
