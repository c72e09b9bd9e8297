"""The process that serves the emulator of one rehearsed run; `start` starts it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from time import monotonic

import msgspec

from rsctl.findings import ExitCode
from rsctl.runs.home import home, private_folder, run_directory
from rsctl.runs.locks import try_lock, write_holder
from rsctl.targets.managed.emulator.clouds import CloudEmulator, client_environment, make_emulator
from rsctl.targets.managed.emulator.nodes import NodeRunner, Program
from rsctl.targets.managed.emulator.nodes.runners import make_runner
from rsctl.targets.managed.rehearsal.settings import PACE, EmulatorSettings, emulator_settings
from rsctl.transport.stop_signals import StopSignals

_POLL_SECONDS = 0.5


def main() -> int:
    """Serve the run named on the command line until SIGTERM, or until it has been idle for long."""
    stop = StopSignals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    folder, rehearsal = run_directory(sys.argv[1]), emulator_settings(sys.argv[1])
    if rehearsal is None:
        print("rehearsal.json does not exist", file=sys.stderr)
        return int(ExitCode.ENVIRONMENT)
    _take_lock(folder / "emulator.lock")
    program = Program(Path(rehearsal.source), entrypoint=tuple(rehearsal.entrypoint))
    images = (rehearsal.image, *rehearsal.more_images)
    runner = make_runner(rehearsal.runner, dict.fromkeys(images, program))
    try:
        _serve(rehearsal, runner, folder, stop)
    finally:
        runner.close()
    return 0


def _serve(
    rehearsal: EmulatorSettings, runner: NodeRunner, folder: Path, stop: StopSignals
) -> None:
    behaviour = rehearsal.behaviour
    emulator = make_emulator(
        rehearsal.emulator, _emulator_folder(folder), runner, rehearsal.options, behaviour
    )
    with emulator:
        environment = client_environment(emulator.environment(), behaviour.get("pace", PACE))
        _write_for_owner(folder / "emulator.json", msgspec.json.encode(environment))
        os.write(1, b"ready\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _wait(emulator, rehearsal.idle_seconds, stop)


def _wait(emulator: CloudEmulator, idle_seconds: float, stop: StopSignals) -> None:
    busy = monotonic()
    while monotonic() - busy < idle_seconds and not stop.wait(_POLL_SECONDS):
        if not emulator.is_idle:
            busy = monotonic()


def _emulator_folder(folder: Path) -> Path:
    """The emulator's folder, whose buckets all rehearsals share."""
    emulator_folder = folder / "emulator"
    emulator_folder.mkdir(mode=0o700, exist_ok=True)
    for scheme in ("gs", "s3"):
        buckets = home() / "rehearsal" / scheme
        private_folder(buckets)
        if not (emulator_folder / scheme).is_symlink():
            (emulator_folder / scheme).symlink_to(buckets)
    return emulator_folder


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
