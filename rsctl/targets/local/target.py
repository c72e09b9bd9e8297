"""The target contract as both local targets share it: submit, follow, reconcile, cancel."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from rsctl.findings import JobState, RsctlError
from rsctl.images.events import CheckedShow, Show
from rsctl.job.job import Job
from rsctl.runs.final_state import final_state, final_states, with_final_state
from rsctl.runs.folder import RunDescription, RunFolder, unwritable
from rsctl.runs.home import private_folder
from rsctl.runs.reader import RunReader, cursor_before_last
from rsctl.runs.store_errors import DiskFull
from rsctl.runs.stream.events import Cursor, Event, StateEvent, now
from rsctl.targets.base import Submission, metric_specs, replica_names
from rsctl.targets.local.host import LocalMachine, this_host
from rsctl.targets.local.input_copies import remove_copies
from rsctl.targets.local.inputs import copies
from rsctl.targets.stalls import stall_seconds, watch_specs
from rsctl.targets.variables import secret_values

if TYPE_CHECKING:
    from rsctl.runs.store import RunRecord, Store

_IDLE_SECONDS = 0.05
_HEAR_SECONDS = 5.0
"""How long a supervisor may take to acknowledge a cancellation."""
_END_SECONDS = 20.0
"""How long it may then take to end the job beside its own grace, with the time to clean up."""


class LocalTarget:
    """The part of the target contract that process and compose share."""

    def __init__(self, host: LocalMachine | None = None) -> None:
        self._host = host
        self._cancelled: dict[str, float] = {}  # since when, by run

    @property
    def host(self) -> LocalMachine:
        """This machine, examined only once."""
        self._host = self._host or this_host()
        return self._host

    def submit(self, submission: Submission, record: Callable[[], None], show: Show) -> None:
        """Store the submission and start its supervisor; does nothing for a run that has one."""
        from rsctl.targets.local.supervisor_process import start_supervisor

        folder = RunFolder(submission.plan.run)
        lock = folder.begin(_description(submission))
        if lock is None:
            return
        try:
            record()
            self.prepare(submission, CheckedShow(show, folder.require_start))
            folder.require_start()
            start_supervisor(folder, lock, secret_values(submission))
        finally:
            os.close(lock)  # the supervisor has its own hold on it

    def prepare(self, submission: Submission, show: Show) -> None:
        """Prepare the requirements of the replicas. Raises RsctlError."""
        make_run_folders(submission.plan.run, submission.job)

    def have_image(self, submission: Submission, show: Show) -> str | None:
        """Do nothing: there are no containers."""
        return None

    def events(self, run: str, since: Cursor, follow: bool) -> Iterator[list[Event]]:
        """See Target.events. The cursor counts bytes of each replica's log and of the states."""
        folder = RunFolder(run)
        tail = RunReader(folder, since)
        cleared = False
        try:
            while True:
                self._escalate(run)
                alive = follow and folder.is_supervised()
                batch = tail.read(complete=not alive)
                if batch:
                    yield batch
                elif not follow or tail.ended or cleared:
                    return
                elif alive:
                    yield []
                    sleep(_IDLE_SECONDS)
                else:
                    self._reconcile_on_full_disk(run)
                    cleared = not folder.is_supervised()
        finally:
            tail.close()

    def _reconcile_on_full_disk(self, run: str) -> None:
        """Reconcile; tolerates a store that cannot be written, because the caller knows the end."""
        try:
            self.reconcile(run)
        except DiskFull:
            if final_state(run) is None:
                raise

    def reconcile(self, run: str) -> None:
        """A run whose supervisor was killed is cleaned up and recorded as failed."""
        folder, store = RunFolder(run), _open_store()
        record = store.get(run)
        if record is None or record.state.is_final:
            return
        try:
            private_folder(folder.path)
            lock = folder.lock()
        except BlockingIOError:
            return
        try:
            record = store.get(run)  # it may have ended before the lock was ours
            if record and not record.state.is_final:
                self._clean_up(folder, store, record)
        finally:
            os.close(lock)
            store.close()

    def _clean_up(self, folder: RunFolder, store: Store, known: RunRecord) -> None:
        from rsctl.runs.recorder import Recorder
        from rsctl.targets.local.supervisor_process import SUBMITTER_KILLED, make_backend

        if ended := final_states(known.run):
            for event in ended:
                store.record(known.run, event)
            return
        reason = "its supervisor was killed; rsctl has removed its remaining processes"
        if known.state is JobState.QUEUED:
            reason = SUBMITTER_KILLED
        description = folder.known_description()
        if description is None and known.state is not JobState.QUEUED:
            reason = "its folder was deleted or damaged; rsctl has removed its remaining processes"
            request = known.plan.get("request", {"commands": []})
            names = [replica.replica for replica in known.replicas]
            description = RunDescription(
                run=known.run, target=known.target, request=request, replicas=names
            )
        if description is not None:
            make_backend(folder, description).clean_up()
        remove_copies(known.run)
        recorder = Recorder(folder, store)
        for replica in known.replicas:
            if not replica.state.is_final:
                recorder.state(JobState.CANCELLED, replica.replica, reason="removed")
        is_cancelled = known.run in self._cancelled or folder.is_cancelled()
        is_cancelled |= known.state is JobState.CANCELLING
        state = JobState.CANCELLED if is_cancelled else JobState.FAILED
        code = int(state.exit_code)
        recorder.state(state, exit_code=code, reason=reason)
        recorder.close()
        if final_state(known.run) is None:  # then the store must have it: callers wait for the end
            event = StateEvent(time=now(), state=state, exit_code=code, reason=reason)
            store.record(known.run, event)

    def poll(self, run: str) -> bool:
        """See whether it has ended; one whose supervisor was killed has.

        Raises DiskFull if the end of a run cannot be recorded.
        """
        if RunFolder(run).is_supervised():
            return False
        self._reconcile_on_full_disk(run)
        store = _open_store()
        record = store.get(run)
        store.close()
        return record is None or with_final_state(record).state.is_final

    def collect(self, run: str) -> None:
        """Do nothing: the supervisor writes the log as it arrives."""

    def release(self, run: str) -> None:
        """Do nothing: the supervisor is a separate process."""

    def pages(self, url: str, plan: Mapping[str, Any]) -> dict[str, str]:
        """None: the results are in folders."""
        return {}

    def tail(self, run: str, lines: int) -> Cursor:
        """A cursor from which at least the last `lines` lines of the run follow."""
        return cursor_before_last(RunFolder(run), lines)

    def cancel(self, run: str) -> None:
        """Ask the supervisor to end the job; clean up after a run that has lost it.

        A process that is about to start the supervisor may be a notebook: it gets no signal.
        A supervisor that does not react in time, as seen by a later call or by `events`, is killed,
        and its processes and files are cleaned up.
        """
        self._cancelled.setdefault(run, monotonic())
        folder = RunFolder(run)
        try:
            self._escalate(run)
            if folder.supervisor(is_started=True) is None and folder.is_supervised():
                folder.note_cancel()  # the process looks for it after its claim: this one, before
            supervisor = folder.supervisor(is_started=True)
            if supervisor is None or not _send(supervisor, signal.SIGTERM):
                self.reconcile(run)
        except OSError:  # its lock cannot be used, or its supervisor is another user's
            folder.note_cancel()
            raise

    def _escalate(self, run: str) -> None:
        """Kill the supervisor of a run that was cancelled too long ago."""
        waited = monotonic() - self._cancelled.get(run, monotonic())
        if waited < _HEAR_SECONDS:
            return
        record = _open_store().get(run)
        if record is None or record.state.is_final:
            return
        if record.state is JobState.CANCELLING and waited < _END_SECONDS + _grace_of(run):
            return
        folder = RunFolder(run)
        supervisor = folder.supervisor(is_started=True)
        if supervisor is not None:
            with suppress(RsctlError):  # on a full disk
                folder.note_cancel()  # another process may record the end before this one
            _send(supervisor, signal.SIGKILL)


def _grace_of(run: str) -> float:
    description = RunFolder(run).known_description()
    return description.grace_seconds if description else 0.0


def _send(process: int, number: signal.Signals) -> bool:
    """Send a signal; returns whether the process existed."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return False
    return True


def make_run_folders(run: str, job: Job) -> None:
    """The folders for outputs and checkpoints. Raises RsctlError."""
    for given, name in ((job.outputs, "outputs"), (job.checkpoints, "checkpoints")):
        if given is None:
            make_open_folder(run, name)
        else:
            _make_folder(given, name)


def make_open_folder(run: str, name: str) -> None:
    """A folder of the run that replicas of any user may write to.

    The run's folder around it stays private. Raises RsctlError.
    """
    path = RunFolder(run).path / name
    _make_folder(path)
    path.chmod(0o777)


def _make_folder(path: str | os.PathLike[str], key: str | None = None) -> None:
    """Make a folder, which is the run's own or the value of a key. Raises RsctlError."""
    try:
        os.makedirs(path, exist_ok=True)
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    except OSError as problem:
        raise unwritable(path, problem, key) from None


def _description(submission: Submission) -> RunDescription:
    plan, job = submission.plan, submission.job
    supervision = plan.request.get("supervisor", {})
    return RunDescription(
        run=plan.run,
        target=plan.target,
        request=plan.request,
        replicas=replica_names(plan.pools),
        timeout=supervision.get("timeout"),
        grace=supervision.get("grace"),
        retries=supervision.get("retries", 0),
        metrics=metric_specs(job),
        source=str(job.image.source) if job.image.source else None,
        may_lose_reducers=job.comm.on_reducer_loss == "fallback",
        copies=copies(job, plan.target),
        roles=dict.fromkeys(job.roles, "with-workers") | supervision.get("ends", {}),
        stall=stall_seconds(job),
        on_stall=job.limits.on_stall,
        watch=watch_specs(job),
    )


def _open_store() -> Store:
    """The store of runs, which a plan does not need: it costs the import of SQLite."""
    from rsctl.runs.store import Store

    return Store()
