"""The final state of a run in a file whose space is reserved before it starts.

So a full disk cannot lose it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from rsctl.atomic_file import open_regular
from rsctl.runs.home import run_directory
from rsctl.runs.records import RunRecord
from rsctl.stream.events import StateEvent

_BYTES = 4096
_LONGEST_REASON = 800  # characters; each takes at most four bytes


def reserve(run: str) -> None:
    """Reserve the space, unless it is; without any the state cannot be kept here."""
    with suppress(OSError):
        file = os.open(_path(run), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.write(file, b" " * _BYTES)
        os.close(file)


def write(run: str, event: StateEvent) -> None:
    """Write the final state of the job, in place."""
    reason = event.reason and event.reason[:_LONGEST_REASON]
    content = msgspec.json.encode(replace(event, reason=reason)).ljust(_BYTES)
    with suppress(OSError):
        file = os.open(_path(run), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(file, content[:_BYTES], 0)
        os.close(file)


def final_state(run: str) -> StateEvent | None:
    """The final state; None if the run has not ended, or that was not kept."""
    try:
        with open_regular(_path(run)) as file:
            event = msgspec.json.decode(file.read(_BYTES), type=StateEvent)
    except (OSError, msgspec.DecodeError):
        return None
    return event if event.replica is None and event.state.is_final else None


def with_final_state(run: RunRecord) -> RunRecord:
    """The run with its final state, should the store lack it, which a full disk may cause."""
    ended = None if run.state.is_final else final_state(run.run)
    if ended is None:
        return run
    return replace(
        run, state=ended.state, reason=ended.reason, exit_code=ended.exit_code, ended=ended.time
    )


def _path(run: str) -> Path:
    return run_directory(run) / "outcome.json"
