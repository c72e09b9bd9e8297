"""The common part of the target contract for clouds: submit, follow, reconcile, cancel.

A run has a folder like a local one. A process that watches it takes the folder's lock and collects
the job's log and states into it, one process per run; all others read the existing files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from time import sleep
from typing import TYPE_CHECKING, Any

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, Finding, RsctlError
from rsctl.runs.folder import CostLimit, RestartLimit, RunDescription, RunFolder
from rsctl.runs.stream.events import Cursor, Event, FindingEvent, now
from rsctl.target_info import TargetInfo
from rsctl.targets.base import Placeholder, Plan, Submission, metric_specs, replica_names
from rsctl.targets.managed.endpoints import endpoints_of
from rsctl.targets.managed.placeholders import resolve_placeholders
from rsctl.targets.managed.service import CloudJob, JobService, cancel_job
from rsctl.targets.stalls import stall_seconds, watch_specs
from rsctl.targets.variables import secret_values

if TYPE_CHECKING:
    from rsctl.images.events import Show
    from rsctl.runs.placements import PlacementEnd, PlannedPlacement
    from rsctl.runs.store import RunRecord, Store
    from rsctl.targets.managed.creation import JobCreator
    from rsctl.targets.managed.moves import Mover
    from rsctl.targets.managed.watcher import RunWatcher

_IDLE_SECONDS = 0.05


class ManagedTarget:
    """The part of the target contract that the clouds share."""

    info: TargetInfo

    def __init__(self) -> None:
        # Any thread takes a watcher of its run that is not in use: iterators move between threads.
        self._watchers: dict[RunWatcher, str] = {}
        self._in_use: set[RunWatcher] = set()
        self._mutex = RLock()  # a garbage collection may close an iterator in any place
        self._secrets: dict[str, dict[str, str]] = {}
        """The secrets of runs that this process has submitted, for their further placements."""

    def service(self, endpoints: Endpoints) -> JobService:
        """The job service at some endpoints; equal endpoints share one service."""
        raise NotImplementedError

    def restart_limit(self, submission: Submission) -> RestartLimit | None:
        """The number of restarts after which rsctl ends a job; None if the service counts."""
        return None

    def numbered_request(self, request: dict[str, Any], number: int) -> dict[str, Any]:
        """The request for a run's placement by its number from 2: it makes a new job."""
        raise NotImplementedError

    def submit(self, submission: Submission, record: Callable[[], None], show: Show) -> None:
        """Provide the image, then send the request; leaves a run alone that another process
        submits.
        """
        from rsctl.images.events import CheckedShow  # which a plan does not need

        plan = submission.plan
        folder = RunFolder(plan.run)
        lock = folder.begin(_description(submission, self.restart_limit(submission)))
        if lock is None:
            return
        try:
            record()
            if folder.last_request() is None:  # otherwise there may be a job to cancel
                show = CheckedShow(show, folder.require_start)
            image = self._provide(submission, show)
            folder.note_image(image)
            if submission.alternatives:
                self._submit_to_placements(submission, image, show)
                return
            request = resolve_placeholders(
                plan.request, submission.placeholders, image, secret_values(submission)
            )
            self._creator(plan.run).create(plan.request, request)
        finally:
            os.close(lock)

    def _provide(self, submission: Submission, show: Show) -> str | None:
        """Provide the image and the package for the job; returns the image's reference."""
        image = submission.plan.image.reference or self.have_image(submission, show)
        self.deliver_package(submission, show)
        return image

    def deliver_package(self, submission: Submission, show: Show) -> None:
        """Take the package of a job that has one where its nodes find it. Raises RsctlError."""
        from rsctl.targets.managed.package_upload import upload_package

        upload_package(submission, endpoints_of(submission.plan.run), show)

    def _submit_to_placements(self, first: Submission, image: str | None, show: Show) -> None:
        """Prepare all places, because the files may not be available later; then send the job to
        the first placement with capacity.
        """
        from rsctl.runs.placements import add_placements
        from rsctl.targets.managed.placement_records import planned_placement

        run, others = first.plan.run, first.alternatives
        placements = [planned_placement(first, first, image, first.plan.request)]
        for number, each in enumerate(others, start=2):
            request = self.numbered_request(each.plan.request, number)
            placements.append(planned_placement(each, first, self._provide(each, show), request))
        secrets: dict[str, str] = {}
        for each in (*others, first):
            secrets |= secret_values(each)
        self._secrets[run] = secrets
        store = _open_store()
        add_placements(store, run, placements)
        self._mover(run, cancels_if_interrupted=True).send()

    def have_image(self, submission: Submission, show: Show) -> str | None:
        """Provide the image in its registry; by digest, if rsctl built it."""
        from rsctl.targets.managed.image import ensure_planned_image

        return ensure_planned_image(submission, show)

    def _create_at(
        self, run: str, placement: PlannedPlacement, cancels_if_interrupted: bool = False
    ) -> None:
        """Create the job of a placement, see JobCreator.create. Raises RsctlError."""
        from rsctl.targets.managed.placement_records import secrets_of

        secrets = self._secrets.get(run) or secrets_of(_open_store().find(run), placement)
        planned = placement.plan["request"]
        request = resolve_placeholders(
            planned,
            [Placeholder(*placeholder) for placeholder in placement.placeholders],
            placement.image,
            secrets,
        )
        self._creator(run).create(planned, request, cancels_if_interrupted)

    def _creator(self, run: str) -> JobCreator:
        from rsctl.targets.managed.creation import JobCreator  # which a plan does not need

        return JobCreator(run, self._service_of(run))

    def events(self, run: str, since: Cursor, follow: bool) -> Iterator[list[Event]]:
        """See Target.events. The cursor counts bytes of each replica's log and of the states.

        Without `follow`, a silent cloud is the first event: the events are what is here.
        """
        from rsctl.runs.reader import RunReader  # which a plan does not need

        silence: list[Finding] = []
        if not follow:
            self.collect(run)
            with self._watching(run) as watcher:
                silence = watcher.silence()
        tail = RunReader(RunFolder(run), since)
        batch: list[Event] | None = None
        try:
            if silence:
                yield [FindingEvent(time=now(), finding=finding) for finding in silence]
            while True:
                is_over = self._follow_step(run, batch == []) if follow else True
                batch = tail.read(complete=is_over)
                if is_over and not batch:
                    return
                yield batch
        finally:
            tail.close()
            self.release(run)

    def _follow_step(self, run: str, is_idle: bool) -> bool:
        """Whether the run is over. Asks again after a refusal. Raises ResultUnknown, DiskFull."""
        from rsctl.runs.store_errors import DiskFull  # which a plan does not need, like the next
        from rsctl.runs.unknown_result import ResultUnknown

        with self._watching(run) as watcher:
            if is_idle:
                sleep(_IDLE_SECONDS)
            try:
                return watcher.step()
            except (DiskFull, ResultUnknown):
                raise
            except RsctlError:
                return False

    def reconcile(self, run: str) -> None:
        """Update the run; finds the job of a killed submission, or records that none exists.

        Raises RsctlError, also if the cloud gives no answer: the stored state may be out of date.
        """
        with self._watching(run) as watcher:
            if not watcher.step() and watcher.has_ended:
                watcher.collect()
            if silence := watcher.silence():
                raise RsctlError(ExitCode.ENVIRONMENT, *silence)

    def poll(self, run: str) -> bool:
        """Make the requests to the cloud that are due."""
        with self._watching(run) as watcher:
            is_over = watcher.step()
        if is_over:
            self.release(run)
        return is_over

    def collect(self, run: str) -> None:
        """Bring the run's log and metrics on this machine up to date."""
        with self._watching(run) as watcher:
            watcher.collect()

    def tail(self, run: str, lines: int) -> Cursor:
        """A cursor from which at least the last `lines` lines of the run follow."""
        from rsctl.runs.reader import cursor_before_last

        return cursor_before_last(RunFolder(run), lines)

    def cancel(self, run: str) -> None:
        """Ask the job to end, and prevent moves of the run; a build of its image ends."""
        from rsctl.runs.placements import request_cancel

        request_cancel(_open_store(), run)
        job = self.find_job(run)
        if job is not None:
            cancel_job(job)
        else:
            with suppress(RsctlError):  # on a full disk the job is cancelled as soon as it exists
                RunFolder(run).note_cancel()
        for watcher, watched in [*self._watchers.items()]:
            if watched == run:
                watcher.poll_now()

    def release(self, run: str) -> None:
        """Release the run's job, which is otherwise kept for the next call."""
        with self._mutex:
            watcher = self._idle(run)
            if watcher is None:
                return
            del self._watchers[watcher]
        watcher.close()

    def adopt(self, url: str) -> RunRecord:
        """A job that was submitted elsewhere, as a run of the store. Raises RsctlError."""
        from rsctl.targets.managed.adopt import adopt_job

        return adopt_job(self.info.name, url, self.service(Endpoints.of_environment()))

    def find_job(self, run: str) -> CloudJob | None:
        """The run's job; None if it has none (yet), or there is no such run. Raises RsctlError."""
        from rsctl.targets.managed.job_finder import find_job  # which a plan does not need

        store = _open_store()
        record = store.get(run)
        return None if record is None else find_job(record, store, self._service_of(run))

    def _have_job(self, run: str) -> CloudJob | None:
        """The run's job; continues a move between two placements that was interrupted.

        Records a run as failed that will have no job. For the holder of the run's lock.
        Raises RsctlError.
        """
        from rsctl.targets.managed.job_finder import give_up_if_lost

        job = self.find_job(run)
        record = _open_store().get(run)
        if job is not None or record is None:
            return job
        service = self._service_of(run)
        give_up_if_lost(record, _open_store(), service)
        if record.state.is_final or not record.placements:
            return None
        settled_after = service.settled_after * endpoints_of(run).time_scale
        self._mover(run).resume(settled_after)
        return self.find_job(run)

    def _move(self, run: str, end: PlacementEnd) -> None:
        """Move a run whose job has ended to its next placement; the caller holds its lock."""
        self._mover(run).move(end)

    def _mover(self, run: str, cancels_if_interrupted: bool = False) -> Mover:
        from rsctl.targets.managed.moves import Mover  # which a plan does not need

        return Mover(run, lambda placement: self._create_at(run, placement, cancels_if_interrupted))

    def _service_of(self, run: str) -> JobService:
        return self.service(endpoints_of(run))

    @contextmanager
    def _watching(self, run: str) -> Iterator[RunWatcher]:
        """A watcher of a run, which no other thread uses meanwhile."""
        from rsctl.targets.managed.watcher import RunWatcher  # which a plan does not need

        with self._mutex:
            watcher = self._idle(run) or RunWatcher(run, self._have_job, self._move)
            self._watchers[watcher] = run
            self._in_use.add(watcher)
        try:
            yield watcher
        finally:
            self._in_use.discard(watcher)

    def _idle(self, run: str) -> RunWatcher | None:
        """A watcher that is not in use: the one with the run's lock, if possible."""
        own = (each for each in [*self._watchers] if self._watchers[each] == run)
        idle = (each for each in own if each not in self._in_use)
        return max(idle, key=lambda each: each.has_lock, default=None)


def _description(submission: Submission, restarts: RestartLimit | None) -> RunDescription:
    plan, job = submission.plan, submission.job
    plans = (plan, *(alternative.plan for alternative in submission.alternatives))
    return RunDescription(
        run=plan.run,
        target=plan.target,
        request=plan.request,
        replicas=list(dict.fromkeys(name for p in plans for name in replica_names(p.pools))),
        metrics=metric_specs(job),
        source=str(job.image.source) if job.image.source else None,
        queue=float(job.limits.queue) if job.limits.queue else None,
        restarts=restarts,
        cost=_cost_limit(plan),
        stall=stall_seconds(job),
        on_stall=job.limits.on_stall,
        watch=watch_specs(job),
    )


def _cost_limit(plan: Plan) -> CostLimit | None:
    cost = plan.cost or None
    if cost is None or cost.limit is None or cost.per_hour is None:
        return None
    return CostLimit(cost.limit, cost.per_hour, cost.ends_at_limit)


def _open_store() -> Store:
    """The store of runs, which a plan does not need: it costs the import of SQLite."""
    from rsctl.runs.store import Store

    return Store()
