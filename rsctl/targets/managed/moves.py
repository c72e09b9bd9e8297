"""Moves a run to its next placement if there is no capacity: one job after the other.

The order of steps ensures that only one job exists. A run leaves a placement when its job there
has ended or was refused; then the store has the next placement; then the job is created there. A
create request without an answer leaves the run where it is, until its job is found or can be
created again. The user of a Mover holds the run's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import msgspec
from msgspec.structs import replace

from rsctl.findings import ExitCode, JobState, RsctlError, note, warning
from rsctl.runs.cost import run_cost
from rsctl.runs.folder import RunFolder
from rsctl.runs.placements import (
    CurrentPlacement,
    PlacementEnd,
    PlannedPlacement,
    current_placement,
    go_on,
    is_ending,
)
from rsctl.runs.reader import STATES
from rsctl.runs.recorder import Recorder
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Attempt, now, seconds_between
from rsctl.targets.base import Unanswered
from rsctl.targets.managed.job_finder import AWAITED_SECONDS
from rsctl.targets.managed.progress import CollectorProgress, kept_progress
from rsctl.targets.managed.service import NoCapacity

Create = Callable[[PlannedPlacement], None]
"""Creates the job of a placement and records its URL. Raises NoCapacity, Unanswered, RsctlError."""


class Mover:
    """Sends a run to its present placement, and to the next ones."""

    def __init__(self, run: str, create: Create) -> None:
        self._run, self._create = run, create

    def send(self) -> None:
        """Create the job at the present placement or, without capacity there, at one of the next.

        Raises NoCapacity if there is none at the last, Unanswered, and RsctlError if it is refused
        for another reason.
        """
        with closing(Store()) as store:
            present = current_placement(store, self._run)
            while present is not None:
                try:
                    self._create(present.placement)
                    return
                except NoCapacity as problem:
                    end = PlacementEnd(JobState.FAILED, problem.summary, now(), 0.0)
                    present = self._leave(store, present, end)
                    if present is None:
                        raise self._nowhere(store, problem) from None

    def move(self, end: PlacementEnd) -> None:
        """The job at the present placement has ended for lack of capacity: move to the next.

        A refusal there for another reason ends the run. Raises RsctlError if the next step cannot
        be taken from here, such as without credentials.
        """
        with closing(Store()) as store:
            present = current_placement(store, self._run)
            if present is None or self._leave(store, present, end) is None:
                return
        self._send_or_fail()

    def resume(self, settled_after: float) -> None:
        """Continue a run that was killed between two placements and has no job that can be found.

        An earlier request may still be executed for `settled_after` seconds. Only the submission
        itself sends the request of the first placement. Raises RsctlError.
        """
        with closing(Store()) as store:
            present = current_placement(store, self._run)
            if present is None or not present.number:
                return
            is_to_end = is_ending(store, self._run)
            if is_to_end:
                settled_after = min(settled_after, AWAITED_SECONDS)
            if seconds_between(present.began, now()) < settled_after:
                return
            if is_to_end:
                self._finish(store, JobState.CANCELLED, f"cancelled before {present.placement}")
                return
        self._send_or_fail()

    def _send_or_fail(self) -> None:
        try:
            self.send()
        except Unanswered as problem:
            with closing(Store()) as store:
                self._report(store, problem.summary)
        except RsctlError as problem:
            if problem.exit_code is ExitCode.ENVIRONMENT:
                raise
            with closing(Store()) as store:
                self._finish(store, JobState.FAILED, problem.summary)

    def _leave(
        self, store: Store, present: CurrentPlacement, end: PlacementEnd
    ) -> CurrentPlacement | None:
        """Record that the run leaves a placement and begins the next; None if it may not."""
        record = store.get(self._run)
        if record is None or present.is_last or is_ending(store, self._run):
            return None
        if end.dollars is None:
            end = end._replace(dollars=self._dollars(store))
        before = kept_progress(store, self._run) or CollectorProgress()
        following = record.placements[present.number + 1]
        recorder = Recorder(RunFolder(self._run), store)
        recorder.attempt = before.before + before.attempt
        why = f"cannot run in {present.placement}: {end.reason}"
        recorder.finding(note("moved", f"{why.rstrip('.')}. The job moves to {following}"))
        for replica in before.running:
            recorder.state(JobState.CANCELLED, replica, reason="its job has ended", time=end.time)
        number = before.before
        if before.running:
            number += before.attempt
            attempt = Attempt(attempt=number, ended=end.time, reason=why)
            recorder.attempt_ended(attempt)
        recorder.attempt = number + 1
        nth = f"placement {present.number + 2} of {len(record.placements)}"
        recorder.state(JobState.QUEUED, reason=f"{nth}: {following}")
        recorder.close()
        sizes = {**before.sizes, STATES: RunFolder(self._run).states.stat().st_size}
        progress = msgspec.json.encode(CollectorProgress(sizes=sizes, before=number))
        return go_on(store, self._run, present, end, progress, number + 1)

    def _nowhere(self, store: Store, problem: NoCapacity) -> NoCapacity:
        """The last refusal, with the other tried placements."""
        record = store.get(self._run)
        tried = (
            [str(placement) for placement in record.placements if placement.began] if record else []
        )
        where = note("placements", f"it was tried in {len(tried)} placements: {'; '.join(tried)}")
        return NoCapacity(problem.exit_code, *problem.findings, where)

    def _dollars(self, store: Store) -> float | None:
        """The cost of the job that has ended: zero if it never ran."""
        record = store.get(self._run)
        if record is None or (record.started is None and not record.facts):
            return 0.0
        cost = run_cost(replace(record, ended=now(), placements=[]))
        return cost.dollars if cost else None

    def _report(self, store: Store, message: str) -> None:
        recorder = Recorder(RunFolder(self._run), store)
        progress = kept_progress(store, self._run) or CollectorProgress()
        recorder.finding(warning("unanswered", message, None))
        self._keep(store, recorder, progress)

    def _finish(self, store: Store, state: JobState, reason: str) -> None:
        """End the run without a job at its present placement."""
        recorder = Recorder(RunFolder(self._run), store)
        progress = kept_progress(store, self._run) or CollectorProgress()
        recorder.attempt = progress.before + progress.attempt
        recorder.state(state, exit_code=int(state.exit_code), reason=reason)
        progress.enter(state, reason)
        progress.is_complete = True
        self._keep(store, recorder, progress)

    def _keep(self, store: Store, recorder: Recorder, progress: CollectorProgress) -> None:
        recorder.close()
        progress.sizes[STATES] = RunFolder(self._run).states.stat().st_size
        record = store.get(self._run)
        facts = record.facts if record else []
        store.keep(self._run, [], msgspec.json.encode(progress), facts)
