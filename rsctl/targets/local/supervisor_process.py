"""Starts a supervisor as a separate process, and is that process's program."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

import rsctl_start
from rsctl.findings import ExitCode, JobState, error
from rsctl.runs.environment import OwnProcess, own_environment
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.targets.local.signals import KEPT_SIGNALS

if TYPE_CHECKING:  # the process that starts it does without
    from rsctl.targets.local.backend import Backend


SUBMITTER_KILLED = "rsctl was killed as it submitted the job"
"""The reason of a run that ended before its supervisor had all of it."""


def start_supervisor(folder: RunFolder, lock: int, secrets: Mapping[str, str]) -> None:
    """Start the supervisor of a run and hand it the run's lock.

    `secrets` reach it by a pipe, its standard input, and it passes them to the replicas that name
    them. They are variables of the job, so they are never part of the supervisor's own environment.
    """
    with folder.supervisor_log.open("ab") as log, _cancels_kept():
        supervisor = OwnProcess(
            [*rsctl_start.command("rsctl.targets.local.supervisor_process"), folder.run, str(lock)],
            env=own_environment(),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=folder.path,
            pass_fds=[lock],
            start_new_session=True,
        )
        folder.claim(lock, supervisor.pid)
        if folder.is_cancelled():  # before the claim: from now on a cancellation is a signal
            supervisor.terminate()
        if supervisor.stdin:
            with suppress(BrokenPipeError), supervisor.stdin as pipe:  # its log says why it ended
                pipe.write(msgspec.json.encode(secrets))


def _read_secrets() -> dict[str, str] | None:
    """The secrets from standard input, which is at its end from then on; None if the process that
    sends them was killed.
    """
    with os.fdopen(0, "rb", closefd=False) as pipe:
        content = pipe.read()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        return msgspec.json.decode(content, type=dict[str, str])
    except ValueError:
        return None


@contextmanager
def _cancels_kept() -> Iterator[None]:
    """A child that is started here gets signals only after it can handle them, and an interruption
    of this process never leaves a child whose id is not recorded.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, KEPT_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def make_backend(
    folder: RunFolder, description: RunDescription, secrets: Mapping[str, str] | None = None
) -> Backend:
    """The backend for a run's target.

    Only a supervisor has `secrets`; the process that cleans up after one has none.
    """
    if description.target == "process":
        from rsctl.targets.local.backend import ProcessBackend

        return ProcessBackend(folder, description, secrets)
    from rsctl.targets.local.containers import ContainerBackend

    return ContainerBackend(folder, description, secrets or {})


def main() -> int:
    """Supervise the run named on the command line, whose lock is an inherited descriptor."""
    from rsctl.node.process_tree import adopt_orphans
    from rsctl.runs.database import used
    from rsctl.runs.recorder import Recorder
    from rsctl.runs.store import Store, store_file
    from rsctl.runs.stream.journal import allow_many_files
    from rsctl.targets.local.input_copies import remove_copies
    from rsctl.targets.local.supervisor import Supervisor

    run, lock = sys.argv[1], int(sys.argv[2])
    folder = RunFolder(run)
    os.set_inheritable(lock, False)
    allow_many_files()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    used.add(store_file())
    recorder = Recorder(folder, Store())
    try:
        description = folder.description()
        secrets = _read_secrets()
        if secrets is None:
            code = int(ExitCode.JOB_FAILED)
            recorder.state(JobState.FAILED, exit_code=code, reason=SUBMITTER_KILLED)
            return code
        backend = make_backend(folder, description, secrets)
        adopt_orphans()
        supervisor = Supervisor(folder, description, backend, recorder)
        return int(supervisor.run().exit_code)
    except Exception:  # noqa: BLE001 - the run must not be left without an end
        with suppress(OSError):
            traceback.print_exc()
        message = f"the supervisor failed unexpectedly; see {folder.supervisor_log}"
        recorder.finding(error("internal", message, "report it"))
        recorder.state(JobState.FAILED, exit_code=int(ExitCode.JOB_FAILED), reason=message)
        return int(ExitCode.JOB_FAILED)
    finally:
        remove_copies(run)
        recorder.close()


if __name__ == "__main__":
    sys.exit(main())
