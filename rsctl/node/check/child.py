"""Runs a program that may crash or hang as a child process with a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import NamedTuple


class ChildResult(NamedTuple):
    """How a child ended: `returncode` is -n if signal n killed it, None if its time was up."""

    returncode: int | None
    out: str
    err: str

    @property
    def reason(self) -> str:
        """The last line of stderr, or how it ended if that is empty."""
        lines = self.err.strip().splitlines()
        return lines[-1].strip() if lines and self.returncode != 0 else self.how

    @property
    def how(self) -> str:
        """How it ended, as part of a sentence."""
        if self.returncode is None:
            return "did not end in time"
        if self.returncode < 0:
            name = signal.strsignal(-self.returncode)
            return f"was killed by signal {-self.returncode} ({name})"
        return f"ended with exit code {self.returncode}"


def run(argv: list[str], seconds: float) -> ChildResult:
    """Run a program to its end, or kill it and its group after `seconds`.

    Raises OSError if it cannot be started.
    """
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
            return ChildResult(process.returncode, out, err)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):  # It may end just now.
                os.killpg(process.pid, signal.SIGKILL)
            return ChildResult(None, "", "")
