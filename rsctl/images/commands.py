"""Runs commands of docker and podman: to their end, or with their output line by line."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ, DefaultSelector
from time import monotonic, sleep
from typing import IO

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.stream.sanitize import sanitize_line

_ANSWER_SECONDS = 60.0
_IDLE_SECONDS = 0.2
_GRACE_SECONDS = 3.0
_POLL_SECONDS = 0.02
_BLOCK = 65536
_PR_SET_PDEATHSIG = 1
CUT = "…"
"""The end of a line that is cut."""

_MAX_LINE = 16384  # bytes; longer lines are cut, because a build's output is untrusted


def run_command(
    argv: list[str], seconds: float | None = _ANSWER_SECONDS, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command, which reads `stdin`, and keep its output. Never raises for its failure.

    One that does not answer within `seconds` is ended; None waits for as long as it takes.
    """
    try:
        return subprocess.run(
            argv,
            input=stdin or "",
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        message = f"no answer within {seconds:.0f} s"
        return subprocess.CompletedProcess(argv, 124, "", message)
    except OSError as problem:
        return subprocess.CompletedProcess(argv, 127, "", str(problem))


def run_checked(argv: list[str]) -> str:
    """The standard output of a command that must succeed. Raises RsctlError with its last line."""
    done = run_command(argv)
    if done.returncode:
        raise command_failed(done)
    return done.stdout


def command_failed(done: subprocess.CompletedProcess[str]) -> RsctlError:
    """The error of a command that should have succeeded."""
    message = f"{' '.join(done.args[:3])}: {last_line(done)}"
    return RsctlError(ExitCode.ENVIRONMENT, error(done.args[0], message))


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line that a failed command has printed, or its exit code."""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return sanitize_line(lines[-1]) if lines else f"exit code {done.returncode}"


def run_streamed(
    argv: list[str],
    on_line: Callable[[str | None], None],
    env: Mapping[str, str] | None = None,
    stdin: IO[bytes] | None = None,
    ended_by: signal.Signals = signal.SIGTERM,
) -> int:
    """Run a command and pass on its output, both streams as one, line by line; its exit code.

    Lines are fit for a terminal and of bounded length. `on_line` gets None again and again while
    the command prints nothing. The command has its own session: when rsctl stops reading, for
    example after Ctrl-C, it ends the command and its plugins. On Linux, if rsctl is killed, the
    command gets `ended_by`. Raises RsctlError if it cannot be started.
    """
    try:
        process = subprocess.Popen(
            argv,
            env=env,
            stdin=stdin or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_ends_with_us(ended_by),
        )
    except OSError as problem:
        message = f"cannot run {argv[0]}: {problem.strerror}"
        remedy = "install it, or use another builder"
        raise RsctlError(ExitCode.ENVIRONMENT, error("builder", message, remedy)) from None
    with process:
        try:
            for line in _lines(process.stdout.fileno() if process.stdout else -1):
                on_line(line)
            return process.wait()
        except BaseException:
            _end(process)
            raise


def _ends_with_us(number: signal.Signals) -> Callable[[], None] | None:
    """The first call of a command, so that Linux sends it a signal when rsctl is killed: one
    system call, which needs no lock that another thread may hold.
    """
    import ctypes

    prctl = getattr(ctypes.PyDLL(None), "prctl", None)
    return prctl and partial(prctl, _PR_SET_PDEATHSIG, number, 0, 0, 0)


def _lines(descriptor: int) -> Iterator[str | None]:
    rest = b""
    with DefaultSelector() as selector:
        selector.register(descriptor, EVENT_READ)
        while True:
            while not selector.select(_IDLE_SECONDS):
                yield None
            block = os.read(descriptor, _BLOCK)
            if not block:
                break
            *whole, rest = (rest + block).split(b"\n")
            yield from map(_text, whole)
            rest = rest[: _MAX_LINE + 1]
    if rest:
        yield _text(rest)


def _text(line: bytes) -> str:
    text = sanitize_line(line[:_MAX_LINE].decode(errors="replace")).rstrip()
    return text + CUT if len(line) > _MAX_LINE else text


def _end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the command, which ends its children; SIGKILL to the rest.

    Docker with BuildKit does not always obey SIGTERM. Its engine stops a build whose client has
    ended.
    """
    deadline = monotonic() + _GRACE_SECONDS
    try:
        process.terminate()
        while _has_members(process) and monotonic() < deadline:
            sleep(_POLL_SECONDS)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _has_members(process: subprocess.Popen[bytes]) -> bool:
    """Whether anything of the command's process group is left."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
