"""The emulator of a rehearsed run, as the run's folder shows it.

emulator.json  environment variables by which clients find the emulator; for the user only
emulator.lock  held while the emulator lives; its text is the emulator's process id

`rsctl.targets.managed.rehearsal.emulator_process` writes both. The variables stay when the
emulator has ended, so that no command on the run calls the real cloud.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from rsctl.atomic_file import read_json
from rsctl.runs.home import run_directory
from rsctl.runs.locks import holder


def environment_of(run: str) -> dict[str, str] | None:
    """The variables by which clients find a rehearsed run's emulator; None for other runs."""
    return read_json(run_directory(run) / "emulator.json", dict[str, str])


def is_alive(run: str) -> bool:
    """Whether the emulator of a run serves; False for runs that are not rehearsed."""
    return holder(_lock_of(run)) is not None


def is_lost(run: str) -> bool:
    """Whether a run was rehearsed by an emulator that has ended; its job has ended with it."""
    return environment_of(run) is not None and not is_alive(run)


def end(run: str) -> None:
    """Ask the emulator of a run, if any, to end with all its nodes; returns at once."""
    process = holder(_lock_of(run), takes_signal=True)
    if process is not None:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)


def _lock_of(run: str) -> Path:
    return run_directory(run) / "emulator.lock"
