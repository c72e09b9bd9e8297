"""The process that serves the emulator of one rehearsed run. See `rsctl.rehearsal.start`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from time import monotonic

import msgspec

from rsctl.emulators.clouds import CloudEmulator, client_environment, make_emulator
from rsctl.emulators.nodes import Program, Runner, make_runner
from rsctl.findings import ExitCode
from rsctl.rehearsal.settings import PACE, Rehearsal, rehearsal_of
from rsctl.runs.home import home, private_folder, run_directory
from rsctl.runs.locks import try_lock, write_holder

_LOOK_SECONDS = 0.5


def main() -> int:
    """Serve the run named on the command line until told to end, or nothing is asked any more."""
    told_to_end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: told_to_end.set())
    folder, rehearsal = run_directory(sys.argv[1]), rehearsal_of(sys.argv[1])
    if rehearsal is None:
        print("rehearsal.json is not there", file=sys.stderr)
        return int(ExitCode.ENVIRONMENT)
    _take_lock(folder / "emulator.lock")
    program = Program(Path(rehearsal.source), entrypoint=tuple(rehearsal.entrypoint))
    runner = make_runner(rehearsal.runner, {rehearsal.image: program})
    try:
        _serve(rehearsal, runner, folder, told_to_end)
    finally:
        runner.close()
    return 0


def _serve(
    rehearsal: Rehearsal, runner: Runner, folder: Path, told_to_end: threading.Event
) -> None:
    own, behaviour = _own_folder(folder), rehearsal.behaviour
    emulator = make_emulator(rehearsal.emulator, own, runner, rehearsal.place, behaviour)
    with emulator:
        environment = client_environment(emulator.environment(), behaviour.get("pace", PACE))
        _write_for_owner(folder / "emulator.json", msgspec.json.encode(environment))
        os.write(1, b"ready\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _wait(emulator, rehearsal.idle_seconds, told_to_end)


def _wait(emulator: CloudEmulator, idle_seconds: float, told_to_end: threading.Event) -> None:
    busy = monotonic()
    while monotonic() - busy < idle_seconds and not told_to_end.wait(_LOOK_SECONDS):
        if not emulator.is_idle:
            busy = monotonic()


def _own_folder(folder: Path) -> Path:
    """The emulator's folder, in which the buckets are those of all rehearsals."""
    own = folder / "emulator"
    own.mkdir(mode=0o700, exist_ok=True)
    for scheme in ("gs", "s3"):
        buckets = home() / "rehearsal" / scheme
        private_folder(buckets)
        if not (own / scheme).is_symlink():
            (own / scheme).symlink_to(buckets, target_is_directory=True)
    return own


def _take_lock(path: Path) -> None:
    """Hold it to the end of this process. Raises BlockingIOError if the run has an emulator."""
    lock = try_lock(path)
    if lock is None:
        raise BlockingIOError
    write_holder(lock, os.getpid())


def _write_for_owner(path: Path, content: bytes) -> None:
    """In one piece: others see all of it or nothing."""
    draft = path.with_suffix(".draft")
    draft.touch(mode=0o600)
    draft.write_bytes(content)
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
