"""The target contract as the clouds share it: submit, follow, reconcile, cancel.

A run has a folder like a local one. Whoever watches it takes the folder's lock and collects the
job's log and states into it, one process a run; everybody else reads what is there already.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from threading import get_ident
from time import sleep
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs import emulator
from rsctl.runs.folder import CostLimit, RestartLimit, RunDescription, RunFolder
from rsctl.stream.events import Cursor, Event, StateEvent, now, seconds_between
from rsctl.target_info import TargetInfo
from rsctl.targets.base import (
    Placeholder,
    Plan,
    Pool,
    Submission,
    Unanswered,
    metric_specs,
    replica_names,
)
from rsctl.targets.managed.endpoints import endpoints_of
from rsctl.targets.managed.placeholders import resolve_placeholders
from rsctl.targets.managed.service import NOT_FOUND, CloudJob, JobService, Unreachable
from rsctl.targets.variables import secret_values

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rsctl.image.events import Show
    from rsctl.runs.places import PlaceEnd, PlannedPlace
    from rsctl.runs.store import Run, Store
    from rsctl.targets.managed.watcher import RunWatcher

T = TypeVar("T")

_IDLE_SECONDS = 0.05
_FIND_TRIES, _FIND_SECONDS = 3, 2.0  # for a job that may be listed only a moment after it was made
_LOST_AFTER = 300.0
"""Seconds after which a submission that nobody works on, and that the cloud does not know, is
taken for one that was never sent."""


class ManagedTarget:
    """The part of the target contract that the clouds share."""

    info: TargetInfo

    def __init__(self) -> None:
        # A watcher belongs to the thread that made it, as its connection to the store does.
        self._watchers: dict[tuple[str, int], RunWatcher] = {}
        self._secrets: dict[str, dict[str, str]] = {}
        """Of runs that this process has submitted, for the places that they go on to."""

    def service(self, endpoints: Endpoints) -> JobService:
        """The job service at some endpoints; equal ones have the same."""
        raise NotImplementedError

    def restart_limit(self, submission: Submission) -> RestartLimit | None:
        """When rsctl itself ends a job that is restarted; None where the service counts."""
        del submission
        return None

    def numbered_request(self, request: dict[str, Any], number: int) -> dict[str, Any]:
        """The request for a run's place by its number from 2: another job than all before it."""
        raise NotImplementedError

    def submit(self, submission: Submission, record: Callable[[], None], show: Show) -> None:
        """Have the image, then send the request; a run that somebody submits is left alone."""
        plan = submission.plan
        folder = RunFolder(plan.run)
        lock = folder.begin(_description(submission, self.restart_limit(submission)))
        if lock is None:
            return
        try:
            record()
            image = self._provide(submission, show)
            if submission.alternatives:
                self._submit_to_places(submission, image, show)
                return
            request = resolve_placeholders(
                plan.request, submission.placeholders, image, secret_values(submission)
            )
            self._create(plan.run, plan.request, request)
        finally:
            os.close(lock)

    def _provide(self, submission: Submission, show: Show) -> str | None:
        """Have the image and the package where the job will find them; the image's reference."""
        from rsctl.targets.managed.package_upload import upload_package

        image = submission.plan.image.reference or self.have_image(submission, show)
        upload_package(submission, endpoints_of(submission.plan.run), show)
        return image

    def _submit_to_places(self, first: Submission, image: str | None, show: Show) -> None:
        """Have all that each place needs, for later nobody may have the files; then send the job
        to the first place with room.
        """
        from rsctl.runs.places import add_places
        from rsctl.targets.managed.moves import Mover
        from rsctl.targets.managed.placed import planned_place

        run, others = first.plan.run, first.alternatives
        places = [planned_place(first, first, image, first.plan.request)]
        for number, each in enumerate(others, start=2):
            request = self.numbered_request(each.plan.request, number)
            places.append(planned_place(each, first, self._provide(each, show), request))
        secrets: dict[str, str] = {}
        for each in (*others, first):
            secrets |= secret_values(each)
        self._secrets[run] = secrets
        store = _open_store()
        add_places(store, run, places)
        Mover(run, lambda place: self._create_at(run, place, is_taken_back=True)).send()

    def have_image(self, submission: Submission, show: Show) -> str | None:
        """Have the image in its registry; by digest, if it is one of ours."""
        from rsctl.targets.managed.image import ensure_planned_image

        return ensure_planned_image(submission, show)

    def _create_at(self, run: str, place: PlannedPlace, is_taken_back: bool = False) -> None:
        """Create the job of a place; see `_create`. Raises RsctlError without its secrets."""
        from rsctl.targets.managed.placed import secrets_of

        secrets = self._secrets.get(run) or secrets_of(_open_store().find(run), place)
        planned = place.plan["request"]
        request = resolve_placeholders(
            planned, [Placeholder(*each) for each in place.placeholders], place.image, secrets
        )
        self._create(run, planned, request, is_taken_back)

    def _create(
        self,
        run: str,
        planned: Mapping[str, Any],
        request: dict[str, Any],
        is_taken_back: bool = True,
    ) -> None:
        """Send a request, the plan's with its placeholders resolved.

        An interruption waits for the answer: a request that is under way may make a job however
        soon its sender has gone. Then the job is taken back, or else recorded and left to run.
        """
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as threads:
            creation = threads.submit(self._service_of(run).create, run, request)
            try:
                self._locate(run, creation.result())
            except KeyboardInterrupt:
                if is_taken_back:
                    self._withdraw(run, planned, creation)
                else:
                    with suppress(RsctlError):  # whoever asks next looks for the job
                        self._locate(run, creation.result())
                raise

    def _locate(self, run: str, url: str) -> None:
        """Record where the job is; one whose run was to end meanwhile is cancelled."""
        from rsctl.runs.places import is_to_end

        store = _open_store()
        store.locate(run, url)
        if is_to_end(store, run):
            _end(self._service_of(run).open(url))

    def _withdraw(self, run: str, planned: Mapping[str, Any], creation: Future[str]) -> None:
        """Cancel the job that an interrupted request has made, if any. Raises Unanswered."""
        from rsctl.runs.places import ask_to_end

        ask_to_end(_open_store(), run)
        try:
            url = creation.result()
        except (Unanswered, KeyboardInterrupt):
            url = self._find_job_of(run, planned)
        except RsctlError:  # it was refused
            return
        _open_store().locate(run, url)
        try:
            _reached(self._service_of(run).open(url).cancel)
        except RsctlError as problem:
            raise Unanswered(run, problem) from None

    def _find_job_of(self, run: str, planned: Mapping[str, Any]) -> str:
        """The URL of a run's job, when the answer that had it was lost. Raises Unanswered."""
        service = self._service_of(run)
        for _ in range(_FIND_TRIES):
            try:
                url = _reached(lambda: service.find(planned, run))
            except RsctlError as problem:
                raise Unanswered(run, problem) from None
            if url is not None:
                return url
            sleep(_FIND_SECONDS * endpoints_of(run).time_scale)
        finding = error("interrupted", "interrupted before the cloud had answered")
        raise Unanswered(run, RsctlError(ExitCode.ENVIRONMENT, finding))

    def events(self, run: str, since: Cursor, follow: bool) -> Iterator[list[Event]]:
        """See Target.events. The cursor counts bytes of each replica's log and of the states."""
        from rsctl.runs.reader import RunReader  # which a plan does not need

        if not follow:
            self.collect(run)
        tail = RunReader(RunFolder(run), since)
        try:
            while True:
                is_over = self._watcher(run).step() if follow else True
                batch = tail.read(complete=is_over)
                if batch:
                    yield batch
                elif is_over:
                    return
                else:
                    yield []
                    sleep(_IDLE_SECONDS)
        finally:
            tail.close()
            self.release(run)

    def reconcile(self, run: str) -> None:
        """Look at the job; a submission that was killed is found again, or given up."""
        watcher = self._watcher(run)
        if not watcher.step() and watcher.has_ended:
            watcher.catch_up()

    def poll(self, run: str) -> bool:
        """Ask the cloud what is due to be asked."""
        is_over = self._watcher(run).step()
        if is_over:
            self.release(run)
        return is_over

    def collect(self, run: str) -> None:
        """Have all that is known by now of the run's log and metrics here."""
        self._watcher(run).catch_up()

    def tail(self, run: str, lines: int) -> Cursor:
        """A cursor from which at least the last `lines` lines of the run follow."""
        from rsctl.runs.reader import cursor_before_last

        return cursor_before_last(RunFolder(run), lines)

    def cancel(self, run: str) -> None:
        """Ask the job to end, and the run to go on nowhere else."""
        from rsctl.runs.places import ask_to_end

        ask_to_end(_open_store(), run)
        job = self.find_job(run)
        if job is not None:
            _end(job)
        for (watched, _), watcher in [*self._watchers.items()]:
            if watched == run:
                watcher.poll_now()

    def release(self, run: str) -> None:
        """Leave the run's job to others: it is kept for the next call in this thread otherwise."""
        watcher = self._watchers.pop((run, get_ident()), None)
        if watcher is not None:
            watcher.close()

    def adopt(self, url: str) -> Run:
        """A job that was submitted elsewhere, as a run of the store. Raises RsctlError."""
        from rsctl.targets.managed.adopt import adopted_run

        service = self.service(Endpoints.of_environment())
        run = adopted_run(self.info.name, url, _reached(service.open(url).describe))
        replicas = replica_names(msgspec.convert(run.plan["pools"], list[Pool]))
        description = RunDescription(run=run.run, target=run.target, request={}, replicas=replicas)
        lock = RunFolder(run.run).begin(description)
        store = _open_store()
        if lock is not None:
            if store.get(run.run) is None:
                store.add(run)
            os.close(lock)
        return store.find(run.run)

    def find_job(self, run: str) -> CloudJob | None:
        """The run's job; None if it has none (yet). A run that will have none is recorded failed.

        Only a killed submission leaves a run without its job's URL. Raises RsctlError.
        """
        store = _open_store()
        known = store.get(run)
        if known is None:
            return None
        service = self._service_of(run)
        if known.url != f"{self.info.name}://{run}":
            return service.open(known.url)
        gone = emulator.is_lost(run)
        url = None if gone else _reached(lambda: service.find(known.plan.get("request", {}), run))
        if url is not None:
            store.locate(run, url)
            return service.open(url)
        is_old = seconds_between(known.created, now()) > _LOST_AFTER
        is_moving = any(place.ended for place in known.places)
        if not known.state.is_final and (gone or (is_old and not is_moving)):
            _give_up(store, run)
        return None

    def _have_job(self, run: str) -> CloudJob | None:
        """The run's job; one that was between two places when it was killed goes on.

        For whoever holds the run's lock. Raises RsctlError.
        """
        job = self.find_job(run)
        known = _open_store().get(run)
        if job is not None or known is None or known.state.is_final or not known.places:
            return job
        from rsctl.targets.managed.moves import Mover

        service = self._service_of(run)
        settled_after = service.settled_after * endpoints_of(run).time_scale
        Mover(run, lambda place: self._create_at(run, place)).resume(settled_after)
        return self.find_job(run)

    def _move(self, run: str, end: PlaceEnd) -> None:
        """Take a run to its next place, whose job has ended; for whoever holds its lock."""
        from rsctl.targets.managed.moves import Mover

        Mover(run, lambda place: self._create_at(run, place)).move(end)

    def _service_of(self, run: str) -> JobService:
        return self.service(endpoints_of(run))

    def _watcher(self, run: str) -> RunWatcher:
        key = run, get_ident()
        if key not in self._watchers:
            from rsctl.targets.managed.watcher import RunWatcher  # which a plan does not need

            self._watchers[key] = RunWatcher(run, self._have_job, self._move)
        return self._watchers[key]


def _description(submission: Submission, restarts: RestartLimit | None) -> RunDescription:
    plan, job = submission.plan, submission.job
    plans = (plan, *(each.plan for each in submission.alternatives))
    return RunDescription(
        run=plan.run,
        target=plan.target,
        request=plan.request,
        replicas=list(dict.fromkeys(name for p in plans for name in replica_names(p.pools))),
        metrics=metric_specs(job),
        queue=float(job.limits.queue) if job.limits.queue else None,
        restarts=restarts,
        cost=_cost_limit(plan),
    )


def _cost_limit(plan: Plan) -> CostLimit | None:
    cost = plan.cost or None
    if cost is None or cost.limit is None or cost.per_hour is None:
        return None
    return CostLimit(cost.limit, cost.per_hour, cost.ends_at_limit)


def _reached(call: Callable[[], T]) -> T:
    """A call whose answer cannot be waited for. Raises RsctlError where there is none."""
    try:
        return call()
    except Unreachable as problem:
        finding = error("network", str(problem), "check the network, then run the command again")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None


def _end(job: CloudJob) -> None:
    """Ask a job to end; one that is not there any more needs not be asked. Raises RsctlError."""
    try:
        _reached(job.cancel)
    except RsctlError as problem:
        if NOT_FOUND not in [finding.code for finding in problem.findings]:
            raise


def _give_up(store: Store, run: str) -> None:
    event = StateEvent(
        time=now(),
        state=JobState.FAILED,
        exit_code=int(ExitCode.JOB_FAILED),
        reason="it was killed before it was sent",
    )
    store.record(run, event)


def _open_store() -> Store:
    """The store of runs, which a plan does not need: it costs the import of SQLite."""
    from rsctl.runs.store import Store

    return Store()
