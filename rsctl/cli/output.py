"""The verbosity and color of standard error: --quiet, --no-color, NO_COLOR, TERM=dumb."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from stat import S_ISREG
from typing import Any

CI_VARIABLES = (
    *("CI", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD", "TEAMCITY_VERSION", "BUILDKITE"),
    "JENKINS_URL",
)
"""Set by CI systems; not all of them set `CI`."""

STANDARD_OUTPUT = "standard output"
"""The file of errors of writing to it, after `name_output`."""

OUTPUT_LOST = (errno.EPIPE, errno.EIO)
"""Errors of writing to a closed pipe or terminal."""

_UNREAD_SECONDS = 1.0

_options = {"quiet": False, "no_color": False}


def set_output(quiet: bool, no_color: bool) -> None:
    """Store the options of a command; a group's options also apply to its commands.

    They are kept after the command, because its errors are shown when it has ended.
    """
    _options["quiet"] |= quiet
    _options["no_color"] |= no_color


def reset_output() -> None:
    """Reset the options of an earlier command line."""
    _options.update(quiet=False, no_color=False)


def in_color(stream: Any = None) -> bool:
    """Whether output on a stream (default: stderr) is colored: a terminal, and not disabled."""
    stream = stream or sys.stderr
    is_refused = _options["no_color"] or os.environ.get("NO_COLOR")
    return not is_refused and can_redraw(stream)


def can_redraw(*streams: Any) -> bool:
    """Whether streams are terminals that obey control sequences; TERM=dumb names one that does
    not.
    """
    return os.environ.get("TERM") != "dumb" and all(stream.isatty() for stream in streams)


def name_output() -> None:
    """Have errors of writing to standard output name it: the system's errors name no file."""
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return
    raw: Any = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    write = raw.write

    def write_named(data: Any) -> int | None:
        try:
            written: int | None = write(data)
        except OSError as problem:
            problem.filename = STANDARD_OUTPUT
            raise
        return written

    raw.write = write_named


def abandon_stdout() -> None:
    """Keep the interpreter's flush at exit from failing after the reader has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def abandon_unread(*streams: int) -> None:
    """Discard further output to standard output (1) or error (2) if it accepts none for a second.

    Such as a pipe to a pager: a write would wait for the reader, through any further interruption.
    """
    for stream in streams:
        with suppress(OSError):  # it was closed at the start
            if not select.select([], [stream], [], _UNREAD_SECONDS)[1]:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


@contextmanager
def without_reader() -> Iterator[None]:
    """Show an outcome whose exit code holds although the reader has closed the pipe."""
    try:
        yield
    except OSError as problem:
        # A file whose disk fails has the error of a closed terminal.
        if problem.errno not in OUTPUT_LOST or S_ISREG(os.fstat(sys.stdout.fileno()).st_mode):
            raise
        abandon_stdout()


def is_quiet() -> bool:
    """Whether --quiet was given."""
    return _options["quiet"]


def is_in_ci() -> bool:
    """Whether a CI system reads the output, by the variables that these systems set."""
    values = map(os.environ.get, CI_VARIABLES)
    return any(value and value.lower() != "false" for value in values)
