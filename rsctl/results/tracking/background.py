"""Starts the process that sends runs to their trackers, and checks for unsent data."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import rsctl_start
from rsctl.bench.folder import BenchFolder
from rsctl.bench.gate import Gate
from rsctl.bench.verdict import Verdict
from rsctl.job.tracking import NOTIFY
from rsctl.results.tracking.cursor import (
    Cursor,
    lock_path,
    make_tracking_folder,
    trackers_of,
    tracking_folder,
    unfinished,
)
from rsctl.results.tracking.sender import is_sent
from rsctl.runs.environment import OwnProcess, own_environment
from rsctl.runs.locks import is_locked
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import now, seconds_between

BENCH, FOLLOW, REGRESSED = "--bench", "--follow", "--regressed"
"""Arguments of the process: of a bench all runs; runs until they have ended; of a bench the
decision of its gate.
"""

_AGAIN_SECONDS = 60.0
_POLL_SECONDS = 0.05
_OTHERS_SECONDS = 20.0
MESSAGE_SECONDS = 1.0
"""How long a command waits for the result of a message that is being sent."""
CLIENT_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
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
    folder = BenchFolder(bench).path
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    return _start([BENCH, bench], folder / "tracking.log")


def start_regressed(gate: Gate, spec: Mapping[str, Any]) -> None:
    """Start a process that sends the regression that a gate has found, if its job wants that."""
    from rsctl.results.tracking.bench_notifications import receivers_of

    if gate.verdict is Verdict.REGRESSED and receivers_of(spec, "regressed"):
        with suppress(OSError):
            _start([REGRESSED, gate.candidate], BenchFolder(gate.candidate).path / "tracking.log")


def wait_regressed(bench: str) -> list[str]:
    """Wait a second for the messages about a regression; those that were not sent, for people."""
    from rsctl.results.tracking.bench_notifications import bench_messages

    end = monotonic() + MESSAGE_SECONDS
    while True:
        messages = bench_messages(bench, "regressed")
        is_open = not messages or "sending" in messages.values()
        if not is_open or monotonic() > end:
            return _unsent(messages)
        sleep(_POLL_SECONDS)


def unsent_ends(bench: str) -> list[str]:
    """The messages about the end of a bench that were not sent so far, for people."""
    from rsctl.results.tracking.bench_notifications import bench_messages

    return _unsent(bench_messages(bench, "end"))


def _unsent(messages: Mapping[str, str]) -> list[str]:
    return [
        f"no message to {key.split()[0]}: {text.partition(': ')[2]}"
        for key, text in messages.items()
        if ": " in text
    ]


def _start(arguments: list[str], log: Path) -> Process:
    with log.open("ab") as output:
        return OwnProcess(
            [*rsctl_start.command("rsctl.results.tracking.process"), *arguments],
            env={**CLIENT_SETTINGS, **own_environment()},
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
    """Wait until a run that has ended is sent, but not for trackers that fail, and for messages a
    second only.

    What is still missing by then, as lines for people.
    """
    begin = monotonic()
    while monotonic() < begin + seconds:
        missing = [each for each in unfinished(run) if is_sent(run, each[0])]
        if monotonic() > begin + MESSAGE_SECONDS:  # a message delays nothing
            missing = [each for each in missing if each[0].kind != NOTIFY]
        if all(cursor.problem for _, cursor in missing):
            break
        sleep(_POLL_SECONDS)
    new_problems(run)  # these are among the missing data
    return missing_lines(run)


def lacking(run: RunRecord) -> tuple[str, str] | None:
    """Which trackers have not received all data of a run, and the remedy; None if all have."""
    try:
        names = [
            f"{tracker.kind} {tracker.location}"
            for tracker, _ in unfinished(run)
            if tracker.kind != NOTIFY and is_sent(run, tracker)
        ]
    except ValueError:  # a damaged record has nothing to send
        return None
    have = "has" if len(names) == 1 else "have"
    message = f"{' and '.join(names)} {have} not received all data of {run.run}"
    return (message, f"send it: rsctl track {run.run}") if names else None


def missing_lines(run: RunRecord) -> list[str]:
    """The data of a run that its trackers have not received, and why."""
    lines = []
    for tracker, cursor in trackers_of(run):
        if tracker.kind == NOTIFY:
            lines += _message_lines(run, tracker.location, cursor)
        if tracker.kind == NOTIFY or cursor.is_complete:
            continue
        name = f"{tracker.kind} {tracker.location}"
        if not is_sent(run, tracker):
            lines.append(f"data of a rehearsal is not sent to {name}")
        elif cursor.problem:
            again = f"to send the rest later: rsctl track {run.run}"
            lines.append(f"{name} has not received all data: {cursor.problem}   {again}")
        else:
            lines.append(f"data is still being sent to {name} in the background")
    return lines


def new_problems(run: RunRecord) -> list[str]:
    """The problems with messages about a run that no command has shown yet, as lines for people."""
    lines = []
    for index, (tracker, cursor) in enumerate(trackers_of(run)):
        shown = tracking_folder(run.run) / f"{index}.shown"
        if tracker.kind == NOTIFY and cursor.problem and not shown.exists():
            lines += _message_lines(run, tracker.location, cursor)
            with suppress(OSError):
                shown.touch()
    return lines


def _message_lines(run: RunRecord, location: str, cursor: Cursor) -> list[str]:
    """The messages that a receiver has not got, and why."""
    if cursor.problem:
        again = "" if cursor.is_complete else f"   to try again: rsctl track {run.run}"
        return [f"notify {location}: {cursor.problem}{again}"]
    is_due = run.state.is_final and not cursor.is_complete
    return [f"a message is still being sent to {location} in the background"] if is_due else []


def _failed_lately(tried: str | None) -> bool:
    return tried is not None and seconds_between(tried, now()) < _AGAIN_SECONDS
