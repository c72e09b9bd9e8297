"""Lines of JSON by which the runtime reports to the outside.

`rank.py` loads this file by its path, without a package: it stands alone.
"""

from __future__ import annotations

import os
import re
import time

TYPE_CHECKING = False  # as in rank.py
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rsctl.node.rank import ExitStatus

LINE_BYTES = 4096
"""The longest write to a pipe that the kernel never mixes with another's (PIPE_BUF)."""

_BEHIND_TEXT = re.compile(rb'(?<=[^\n])(?=\{"rsctl": "(?!metrics")[a-z]+", [^\n]*\}\r?(?:\n|\Z))')

_UNSAFE = re.compile(r'[\x00-\x1f"\\]')

_write: list[Callable[[int, bytes], int]] = [os.write]


def write_by(write: Callable[[int, bytes], int]) -> None:
    """Have `emit` write its lines by this function, which takes what `os.write` takes."""
    _write[0] = write


def emit(kind: str, fields: Mapping[str, object], stream: int = 1) -> None:
    """Write one structured line to stdout, whole, its longest texts cut if it would be too long.

    `stream` is 2 for stderr.
    """
    shortened = dict(fields)
    while len(line(kind, shortened)) > LINE_BYTES:
        texts = {name: text for name, text in shortened.items() if isinstance(text, str)}
        longest = max(texts, key=lambda name: len(texts[name]), default=None)
        if longest is None or len(texts[longest]) < 8:
            break
        shortened[longest] = texts[longest][: len(texts[longest]) // 2] + "..."
    try:
        _write[0](stream, line(kind, shortened))
    except OSError:
        return  # The reader has closed the pipe; that must not change the exit code.


def warning(code: str, message: str, remedy: str) -> dict[str, object]:
    """The fields of a `finding` line for a warning."""
    return {"severity": "warning", "code": code, "message": message, "remedy": remedy}


def apart(lines: bytes) -> bytes:
    """The lines, with a line break between a program's unfinished text and a record behind it.

    A rank's process and ours share a pipe, so that the program may end without ending its line.
    """
    return _BEHIND_TEXT.sub(b"\n", lines) if b'{"rsctl": "' in lines else lines


def line(kind: str, fields: Mapping[str, object]) -> bytes:
    """The structured line of this kind with these fields, newline included."""
    record = {"rsctl": kind, **fields}
    try:
        import json  # which a plan, that imports this too, does not need
    except ImportError:  # python3-minimal, of which interpreter.py makes a finding
        texts = ", ".join(f"{_quoted(name)}: {_quoted(str(record[name]))}" for name in record)
        return f"{{{texts}}}\n".encode()
    return json.dumps(record).encode() + b"\n"


def _quoted(text: str) -> str:
    """A text in JSON."""
    escaped = _UNSAFE.sub(lambda match: "\\u%04x" % ord(match[0]), text)  # noqa: UP031
    return f'"{escaped}"'


def lock_of(key: str) -> str:
    """The line that a launcher prints before it starts a program: only its own key is valid."""
    import hashlib

    return hashlib.sha256(key.encode()).hexdigest()


def report_end(
    status: ExitStatus,
    rank: int | None,
    local_rank: int | None,
    key: str | None,
    replica: str | None = None,
) -> None:
    """Print the `exit` line of a rank that has ended, or of a reducer, without a rank.

    `key` proves that the line is the launcher's: the program that has run did not get it.
    `replica` is given where the line comes into another replica's log, by mpirun. That brings
    stdout and stderr separately, and the traceback, which is on stderr, must come before the line.
    """
    seconds, nanoseconds = divmod(status.time, 10**9)
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    emit(
        "exit",
        {
            "rank": rank,
            "local_rank": local_rank,
            "code": status.code,
            "signal": status.signal,
            "time": f"{moment}.{nanoseconds // 1000:06d}Z",
            **({"oom_kills": status.oom_kills} if status.signal == "SIGKILL" else {}),
            **({"replica": replica} if replica else {}),
            **({"key": key} if key else {}),
        },
        stream=2 if replica else 1,
    )
