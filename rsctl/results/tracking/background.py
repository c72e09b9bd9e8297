"""Starts the process that sends runs to their trackers, and checks for unsent data."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import rsctl_start
from rsctl.results.tracking.cursor import lock_path, make_tracking_folder, unfinished
from rsctl.results.tracking.sender import is_sent
from rsctl.runs.environment import own_environment
from rsctl.runs.locks import is_locked
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import now, seconds_between

BENCH, FOLLOW = "--bench", "--follow"
"""Arguments of the process: of a bench all runs, and runs until they have ended."""

_AGAIN_SECONDS = 60.0
_POLL_SECONDS = 0.05
_OTHERS_SECONDS = 20.0
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_ERROR_REPORTING": "false",
}
"""Settings of the clients, unless set: rsctl retries itself, and disables their telemetry."""

Process = subprocess.Popen[bytes]


def start(runs: Sequence[str], follow: bool) -> Process:
    """Start a process that sends some runs; with `follow` until they have ended.

    It outlives this one. Raises OSError.
    """
    return _start([*([FOLLOW] if follow else []), *runs], make_tracking_folder(runs[0]) / "log")


def follow_run(run: RunRecord) -> None:
    """Start a process that sends a run in progress to its trackers, if it has any."""
    if run.plan.get("tracking"):
        with suppress(OSError):  # the next command that meets the run tries again
            start([run.run], follow=True)


def start_bench(bench: str) -> Process:
    """Start a process that sends the runs of a bench until it has ended. Raises OSError."""
    from rsctl.bench.folder import BenchFolder

    folder = BenchFolder(bench).path
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    return _start([BENCH, bench], folder / "tracking.log")


def _start(arguments: list[str], log: Path) -> Process:
    with log.open("ab") as output:
        return subprocess.Popen(
            [*rsctl_start.command("rsctl.results.tracking.process"), *arguments],
            env={**_DEFAULTS, **own_environment()},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def resume(run: RunRecord) -> bool:
    """Send a run's unsent data in the background; whether a process was started.

    A tracker that failed within the last minute is left alone.
    """
    due = [
        tracker
        for tracker, cursor in unfinished(run)
        if is_sent(run, tracker) and not _failed_lately(cursor.tried if cursor.problem else None)
    ]
    if not due or is_sending(run.run):
        return False
    with suppress(OSError):
        start([run.run], follow=not run.state.is_final)
    return True


def is_sending(run: str) -> bool:
    """Whether a process sends a run now."""
    return is_locked(lock_path(run))


def wait_for_others(run: str) -> None:
    """Wait until no process sends a run; only some seconds, because a stuck process may take
    long.
    """
    end = monotonic() + _OTHERS_SECONDS
    while is_sending(run) and monotonic() < end:
        sleep(_POLL_SECONDS)


def wait(run: RunRecord, seconds: float) -> list[str]:
    """Wait until a run that has ended is sent, but not for trackers that fail.

    What is still missing by then, as lines for people.
    """
    end = monotonic() + seconds
    while monotonic() < end:
        missing = [cursor for tracker, cursor in unfinished(run) if is_sent(run, tracker)]
        if all(cursor.problem for cursor in missing):
            break
        sleep(_POLL_SECONDS)
    return missing_lines(run)


def missing_lines(run: RunRecord) -> list[str]:
    """The data of a run that its trackers have not received, and why."""
    lines = []
    for tracker, cursor in unfinished(run):
        name = f"{tracker.kind} {tracker.location}"
        if not is_sent(run, tracker):
            lines.append(f"data of a rehearsal is not sent to {name}")
        elif cursor.problem:
            again = f"to send the rest later: rsctl track {run.run}"
            lines.append(f"{name} has not received all data: {cursor.problem}   {again}")
        else:
            lines.append(f"data is still being sent to {name} in the background")
    return lines


def _failed_lately(tried: str | None) -> bool:
    return tried is not None and seconds_between(tried, now()) < _AGAIN_SECONDS
