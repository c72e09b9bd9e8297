"""The folder of a run: its files, and the lock that its supervisor holds.

For a job in a cloud the supervisor is the command that collects its log.

submission.json   the run description: what the supervisor runs (no secrets)
origin.json       the job file, commit and files of the run, see `rsctl.runs.origin`
image             the reference of the image that was sent to a cloud, by digest if it has one
requested         its modification time is when the job was last requested from a cloud
supervisor.lock   held while the supervisor lives; its text is the supervisor's process id
cancelled         is there if the run was cancelled before it had a supervisor, or by a process
                  that cannot signal the supervisor
supervisor.log    what the supervisor itself printed; normally empty
outcome.json      the end of the job, as a copy for which there is space on a full disk
states.log        the states of the job and its replicas, one JSON event a line
REPLICA/log       everything a replica printed, see `rsctl.runs.stream.journal`
REPLICA/unfinished    the state of its progress bar while there is one
REPLICA/tmp       a replica's TMPDIR
links             leads to the folder of links to these, where their paths are too long for sockets
REPLICA/evidence  what its ranks were doing when the job stalled, see `rsctl.node.stall.evidence`
outputs, checkpoints    unless the spec puts them elsewhere
inputs            copies of data on this machine, while the job runs
rehearsal.json    for a run whose cloud is emulated here, see `targets/managed/rehearsal/start.py`;
                  beside it emulator.json, emulator.lock, emulator.log and the folder emulator
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any, Literal, NamedTuple, Optional

import msgspec

from rsctl.atomic_file import UNREADABLE, open_regular, read_json
from rsctl.findings import ExitCode, RsctlError, error, note
from rsctl.runs.home import private_folder, run_directory
from rsctl.runs.locks import holder, is_locked, try_lock, write_holder
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.runs.watch_rules import WatchSpec

_PROBE_SECONDS = 0.2


class RestartLimit(NamedTuple):
    """The number of restarts after which rsctl ends a job in a cloud.

    With `is_spot`, restarts without a failure of the job itself are not counted.
    """

    most: int
    is_spot: bool


class CostLimit(msgspec.Struct, frozen=True):
    """The cost limit of a job in US dollars, its cost per hour, and whether its own time limit
    follows from that cost limit.
    """

    dollars: float
    per_hour: float
    ends_at_limit: bool


Ending = Literal["with-workers", "by-itself"]


_GRACE_SECONDS = 30.0


class RunDescription(msgspec.Struct, kw_only=True):
    """The job of a supervisor, stored in `submission.json`. Times in seconds.

    `grace` is the time between the request to end and SIGKILL. With `may_lose_reducers` the workers
    continue by themselves when a reducer is lost. `roles` says how the replicas of each of the
    job's own roles end, with the workers or by themselves. `queue` is how long a job in a cloud may
    wait for capacity, `restarts` its limit of restarts, if the service does not enforce one itself;
    `cost` is its cost limit. `copies` are the locations of the inputs that are copied to this
    machine first, by name; `source` is the folder of the job's code on this machine. `stall` is
    the time without progress after which the job has stalled, 0 for never, and `on_stall` the
    action that follows; `watch` are rules over its metrics.
    """

    run: str
    target: str
    request: dict[str, Any]
    replicas: list[str]
    timeout: Optional[float] = None
    grace: Optional[float] = None
    retries: int = 0
    metrics: dict[str, MetricSpec] = {}
    may_lose_reducers: bool = False
    roles: dict[str, Ending] = {}
    queue: Optional[float] = None
    restarts: Optional[RestartLimit] = None
    cost: Optional[CostLimit] = None
    copies: dict[str, str] = {}
    source: Optional[str] = None
    stall: float = 0.0
    on_stall: str = "notify"
    watch: dict[str, WatchSpec] = {}

    @property
    def grace_seconds(self) -> float:
        """The grace, by default as long as torchrun and Kubernetes wait."""
        return self.grace or _GRACE_SECONDS


class RunFolder:
    """Paths and lock of one run."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.path = run_directory(run)
        self.states = self.path / "states.log"
        self.supervisor_log = self.path / "supervisor.log"
        self._description = self.path / "submission.json"
        self._requested = self.path / "requested"
        self._image = self.path / "image"
        self._lock_path = self.path / "supervisor.lock"
        self._cancelled = self.path / "cancelled"

    def create(self, description: RunDescription) -> None:
        """Make the folder and the files and folders that replicas write to. Raises OSError."""
        private_folder(self.path)
        for replica in description.replicas:
            (self.path / replica / "tmp").mkdir(parents=True, exist_ok=True)
        self._description.write_bytes(msgspec.json.encode(description))
        for file in (self.states, self.supervisor_log):  # a supervisor could not say it has none
            file.touch(0o600)

    def begin(self, description: RunDescription) -> int | None:
        """Make the folder and take its lock; None if the run is supervised already.

        Raises RsctlError if the folder cannot be written.
        """
        try:
            private_folder(self.path)
            lock = self.lock()  # before the description, which is of the process that has it
        except BlockingIOError:
            return None
        except OSError as problem:
            raise unwritable(self.path, problem) from None
        try:
            self.create(description)
        except OSError as problem:
            os.close(lock)
            raise unwritable(self.path, problem) from None
        return lock

    def note_image(self, reference: str | None) -> None:
        """Note the reference of the image that is sent. Raises OSError."""
        if reference is not None:
            self._image.write_text(reference, encoding="utf-8")

    def image(self) -> str | None:
        """The reference of the image that was sent; None if that is not known."""
        try:
            with open_regular(self._image) as file:
                return file.read().decode() or None
        except (OSError, UnicodeDecodeError):
            return None

    def note_request(self) -> None:
        """Note that a request which may create the run's job is about to be sent.

        Raises OSError.
        """
        self._requested.touch()

    def last_request(self) -> float | None:
        """The time at which `note_request` was last called, in Unix seconds; None if never."""
        try:
            return self._requested.stat().st_mtime
        except OSError:
            return None

    def description(self) -> RunDescription:
        """The run description. Raises the errors of `UNREADABLE`."""
        with open_regular(self._description) as file:
            return msgspec.json.decode(file.read(), type=RunDescription)

    def known_description(self) -> RunDescription | None:
        """The run description; None for a job that was submitted elsewhere, or a damaged file."""
        return read_json(self._description, RunDescription)

    def replicas(self) -> list[str]:
        """The replicas of the run, or the replicas with a log."""
        try:
            return self.description().replicas
        except UNREADABLE:
            return sorted(path.parent.name for path in self.path.glob("*/log"))

    def log(self, replica: str) -> Path:
        """A replica's log."""
        return self.path / replica / "log"

    def lock(self) -> int:
        """Take the run's lock; returns its file descriptor, which a supervisor may inherit.

        A lock belongs to the open file, so it is held until the last process that has it ends,
        however it ends. Raises BlockingIOError if the run is supervised already.
        """
        deadline = monotonic() + _PROBE_SECONDS
        while (file := try_lock(self._lock_path)) is None:
            # Another process may only be checking the lock, which takes a moment.
            if monotonic() > deadline:
                raise BlockingIOError
            sleep(_PROBE_SECONDS / 20)
        write_holder(file, os.getpid(), takes_signal=False)
        return file

    def claim(self, lock: int, supervisor: int) -> None:
        """Write the process id of a supervisor, which SIGTERM cancels, into the lock."""
        write_holder(lock, supervisor)

    def note_watched(self) -> None:
        """Note that the holder of the lock has just updated the run."""
        with suppress(OSError):
            os.utime(self._lock_path)

    def unwatched_seconds(self) -> float:
        """The time since the lock was taken, or since `note_watched`; 0 if that is unknown."""
        try:
            return time() - self._lock_path.stat().st_mtime
        except OSError:
            return 0.0

    def is_supervised(self) -> bool:
        """Whether a supervisor lives, or a process is about to start one or to clean up."""
        return is_locked(self._lock_path)

    def supervisor(self, is_started: bool = False) -> int | None:
        """The process id of the living supervisor, or None.

        Unless `is_started`, it may be a process that is about to start one, or that cleans up, or
        one on another machine or in another container.
        """
        return holder(self._lock_path, is_started)

    def note_cancel(self) -> None:
        """Ask the process that is about to start a supervisor not to, and a supervisor that cannot
        be signalled to end the job. Raises RsctlError.
        """
        try:
            self._cancelled.touch()
        except OSError as problem:
            raise unwritable(self._cancelled, problem) from None

    def is_cancelled(self) -> bool:
        """Whether another process has called `note_cancel`."""
        return self._cancelled.exists()

    def require_start(self) -> None:
        """Raise RsctlError (cancelled) if another process has called `note_cancel`."""
        if self.is_cancelled():
            message = f"another process has cancelled {self.run}"
            raise RsctlError(ExitCode.CANCELLED, note("interrupted", message))


def unwritable(
    path: str | os.PathLike[str], problem: OSError, key: str | None = None
) -> RsctlError:
    """The error for a folder of a run that cannot be written; `key` is the job's key that names it,
    if one does.
    """
    message = f"cannot write {path}: {problem.strerror}"
    remedy = "set RSCTL_HOME to your own folder with free space"
    if key is not None:
        remedy = f"set {key} to a folder that you can write"
    return RsctlError(ExitCode.ENVIRONMENT, error("run-folder", message, remedy, key))
