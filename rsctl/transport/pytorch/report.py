"""Output of the binding: lines for people on stderr, structured lines on stdout.

The structured lines have the runtime's format (`rsctl.node.structured_lines`); the code is
repeated here because this package is installed without the runtime.
"""

from __future__ import annotations

import json
import os
import threading

from rsctl.transport.pytorch.settings import BindingError

LINE_BYTES = 4096
"""The longest write to a pipe that the kernel never mixes with another's (PIPE_BUF)."""

_printed: set[str] = set()
_lock = threading.Lock()


def rank() -> int:
    """This process's rank in the job, 0 if it is not set.

    Where no launcher has started ranks, it is the node's number (`run.launcher: once`).
    """
    return number("RANK" if "RANK" in os.environ else "NODE_RANK")


def local_rank() -> int:
    """This process's rank on its node, 0 if it is not set."""
    return number("LOCAL_RANK")


def print_line(text: str) -> None:
    """One line on stderr, from rank 0 only."""
    if rank() == 0:
        write_line(text)


def write_line(text: str) -> None:
    """One line on stderr, from this rank."""
    _write(2, f"rsctl: {text}"[: LINE_BYTES // 4].encode(errors="replace") + b"\n")


def print_once(text: str) -> None:
    """As `print_line`, but not a second time in this process."""
    with _lock:
        if text in _printed:
            return
        _printed.add(text)
    print_line(text)


def emit(kind: str, fields: dict[str, object]) -> None:
    """One structured line on stdout."""
    _write(1, json.dumps({"rsctl": kind, **fields}).encode() + b"\n")


def emit_finding(severity: str, code: str, message: str, remedy: str) -> None:
    """One `finding` line, from this rank; its texts are cut to what one write may carry."""
    emit(
        "finding",
        {
            "severity": severity,
            "code": code,
            "message": message[: LINE_BYTES // 8],
            "remedy": remedy[: LINE_BYTES // 8],
        },
    )


def report_error(error: BindingError) -> BindingError:
    """Emit a finding that says what cannot be done; returns the error, to be raised.

    An error passes several wrappers on its way to the script. Only the first one reports it.
    """
    if not error.reported:
        error.reported = True
        emit_finding("error", error.code, f"{error.key}: {error.message}", error.remedy)
    return error


def number(name: str) -> int:
    """A variable's value, 0 if it is not set or is not a number."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _write(stream: int, data: bytes) -> None:
    try:
        os.write(stream, data)
    except OSError:
        return  # The reader has closed the pipe; that must not change how the job ends.
