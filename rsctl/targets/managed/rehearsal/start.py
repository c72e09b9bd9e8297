"""Start the emulator of a rehearsed run: a process of its own, found by files in the run's folder.

rehearsal.json  the emulator's settings (no secrets), see `rsctl.targets.managed.rehearsal.settings`
emulator.json   see `rsctl.runs.emulator`
emulator.lock   see `rsctl.runs.emulator`
emulator.log    the emulator's own output; normally empty
emulator/       the emulator's folder; gs/ and s3/ lead to the buckets of all rehearsals
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

import rsctl_start
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.environment import OwnProcess, own_environment
from rsctl.runs.home import private_folder, run_directory
from rsctl.runs.stream.sanitize import sanitize_line
from rsctl.targets.managed.rehearsal.buckets import make_bucket
from rsctl.targets.managed.rehearsal.settings import EmulatorSettings


def start(run: str, rehearsal: EmulatorSettings) -> None:
    """Start the emulator of a run and wait until it answers. Raises RsctlError.

    It lives on when this process ends, until `rsctl.runs.emulator.end` or until it has been idle
    for long.
    """
    folder = run_directory(run)
    try:
        private_folder(folder)
        for bucket in rehearsal.buckets:
            make_bucket(bucket)
        (folder / "rehearsal.json").write_bytes(msgspec.json.encode(rehearsal))
        log = (folder / "emulator.log").open("ab")
    except OSError as problem:
        raise _not_started(f"cannot write {problem.filename}: {problem.strerror}") from None
    with log:
        process = OwnProcess(
            [*rsctl_start.command("rsctl.targets.managed.rehearsal.emulator_process"), run],
            env=own_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    if not _is_ready(process):
        raise _not_started(_last_line(folder / "emulator.log"))


def _is_ready(process: OwnProcess) -> bool:
    """Wait until the emulator answers or has ended; whether it answers."""
    try:
        answer = process.stdout.readline() if process.stdout else b""
        return answer == b"ready\n"
    except BaseException:
        process.terminate()
        raise


def _not_started(why: str) -> RsctlError:
    remedy = "run the command again; emulator.log in the run's folder has more details"
    message = f"the emulator does not start: {why}"
    return RsctlError(ExitCode.ENVIRONMENT, error("rehearsal", message, remedy))


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").strip().splitlines()
    return sanitize_line(lines[-1])[:500] if lines else "it ended without writing anything"
