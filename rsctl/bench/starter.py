"""Starts the runs of a bench in their order, as fast as its target takes them."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from time import monotonic
from typing import NamedTuple

from msgspec.structs import replace

from rsctl.bench.backoff import Backoff
from rsctl.bench.lost_runs import failed_nodes, without_nodes
from rsctl.bench.own_folders import with_own_folders
from rsctl.bench.pack_progress import settings_of
from rsctl.bench.packed import MOST_SLOTS, Pack, make_pack, pack_job, shape_of, trials_in
from rsctl.bench.prepare import BenchCell, BenchPlan, digest_of
from rsctl.bench.rate import submission_rate
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.bench.schedule import Slot, next_trial
from rsctl.bench.submit_thread import SubmitThread
from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, Finding, RsctlError, error, warning
from rsctl.plan import make_plan
from rsctl.runs.home import home
from rsctl.runs.ids import new_run_id, placeholder, slot_run
from rsctl.runs.store import Store
from rsctl.targets.base import Plan, Submission

_SENDERS = 8


class Sent(NamedTuple):
    """A submission that was answered: `problem` says why there is no job, None if there is."""

    trial: Trial
    problem: RsctlError | None


class TrialStarter:
    """The remaining runs, and those being submitted.

    `prepared` has their plans, `parallel` is the maximum number of concurrent runs, `problem` is
    the reason why nothing more can be started.
    """

    def __init__(self, prepared: BenchPlan, store: Store, parallel: int) -> None:
        self.problem: RsctlError | None = None
        self.prepared, self._store, self._parallel = prepared, store, parallel
        self._benches = Benches(store)
        self._queue: deque[Slot] = deque()
        self._again: deque[Trial] = deque()
        self._sending: dict[str, tuple[Trial, SubmitThread]] = {}
        account = _account(prepared.cells[0].submission.plan)
        self._rate = (
            None  # an emulator has no quota to share
            if prepared.rehearsal
            else submission_rate(home(), prepared.target.info.name, account)
        )
        queue = prepared.job.limits.queue
        factor = Endpoints.of_environment().time_scale
        self.backoff = Backoff(float(queue) if queue else None, factor)

    def add(self, slots: Iterable[Slot], unsent: Iterable[Trial]) -> None:
        """The queue: trials that were recorded but not sent, then slots."""
        self._queue.extend(slots)
        self._again.extend(unsent)

    def cells(self, bench: BenchRecord) -> list[BenchCell]:
        """The cells that are still to be run, as they are submitted: packed ones by jobs.

        Raises RsctlError.
        """
        if self.prepared.is_packed:
            return list(self._packed_cells(bench))
        again = {trial.cell for one in self._again for trial in trials_in(one)}
        waiting = {cell for cell, _ in self._queue} | again
        return [self.prepared.cells[index] for index in sorted(waiting)]

    def _packed_cells(self, bench: BenchRecord) -> Iterator[BenchCell]:
        left, name = list(self._queue), placeholder(self.prepared.job.name)
        packs = list(self._again)
        while left:
            alike = self._alike(left)
            left = [slot for slot in left if slot not in alike]
            packs.append(self._pack(bench, name, alike))
        for pack in packs:
            submission = self._submission(bench, pack)
            yield dataclasses.replace(self.prepared.cells[pack.cell], submission=submission)

    def _alike(self, slots: Sequence[Slot]) -> list[Slot]:
        """The slots that the first one can share a job with."""
        shapes = {number: shape_of(self.prepared.cells[number]) for number, _ in slots}
        first = shapes[slots[0][0]]
        return [slot for slot in slots if shapes[slot[0]] == first][:MOST_SLOTS]

    def _pack(self, bench: BenchRecord, run: str, slots: Sequence[Slot]) -> Trial:
        trials = [next_trial(bench, slot, slot_run(run, n)) for n, slot in enumerate(slots)]
        return make_pack(run, trials)

    @property
    def waiting(self) -> int:
        """How many are still to be started."""
        return len(self._queue) + len(self._again)

    @property
    def sending(self) -> int:
        """How many submissions are on their way."""
        return len(self._sending)

    def put_first(self, slot: Slot) -> None:
        """A slot must run again, before all others."""
        self._queue.appendleft(slot)

    def queue_again(self, slots: Iterable[Slot]) -> None:
        """These slots remain, and no others."""
        self._queue = deque(slots)

    def stop(self, problem: RsctlError | None = None) -> None:
        """Start nothing more."""
        self.problem = self.problem or problem
        self._queue.clear()
        self._again.clear()

    def start(self, bench: BenchRecord, running: int) -> None:
        """Submit what may be submitted now, beside so many that hold machines."""
        while self._has_room(running):
            trial = self._next(bench)
            if trial is None:
                return
            try:
                submission = self._submission(bench, trial)
            except RsctlError as problem:
                self.stop(problem)
                return
            known = {other.run for other in bench.trials}
            for one in trials_in(trial):
                if one.run not in known:
                    self._benches.begin(bench.bench, one)
                    bench.trials.append(one)
            target, settings = self.prepared.target, settings_of(self.prepared, trial.cell)
            thread = SubmitThread(target, submission, settings, self._rate, self.prepared.rehearsal)
            self._sending[trial.run] = trial, thread

    def wait(self) -> None:
        """Wait for the answers of all submissions: a job must not come after its cancel."""
        for _, thread in self._sending.values():
            thread.wait()

    def answered(self) -> list[Sent]:
        """Submissions that have been answered since."""
        done = [run for run, (_, thread) in self._sending.items() if thread.done]
        return [
            Sent(trial, thread.problem)
            for trial, thread in (self._sending.pop(run) for run in done)
        ]

    def later(self, sent: Sent, others_run: bool) -> list[Finding] | None:
        """Schedule another attempt at a refused submission if no machines were available; otherwise
        None.

        Returns the message.
        """
        if sent.problem is None or not self.backoff.is_about(sent.problem):
            return None
        wait = self.backoff.wait(monotonic(), others_run)
        if wait is None:
            return None
        self._again.appendleft(sent.trial)
        return [
            warning(f.code, f"{f.message}; trying again in {wait:.0f} s", f.remedy)
            for f in sent.problem.findings
        ]

    def _has_room(self, running: int) -> bool:
        return (
            running + len(self._sending) < self._parallel
            and len(self._sending) < _SENDERS
            and self.waiting > 0
            and self.backoff.is_over(monotonic())
        )

    def _next(self, bench: BenchRecord) -> Trial | None:
        """The next trial, if the rate of submissions allows one."""
        run = self._again[0].run if self._again else new_run_id(self.prepared.job.name)
        if self._rate is not None and not self._rate.take(run):
            return None
        if self._again:
            return self._again.popleft()
        if not self.prepared.is_packed:
            return next_trial(bench, self._queue.popleft(), run)
        alike = self._alike(list(self._queue))
        self._queue = deque(slot for slot in self._queue if slot not in alike)
        return self._pack(bench, run, alike)

    def _submission(self, bench: BenchRecord, trial: Trial) -> Submission:
        """The submission of one run. Raises RsctlError if it no longer matches the bench's plan."""
        numbers = sorted({one.cell for one in trials_in(trial)})
        cells = [self.prepared.cells[number] for number in numbers]
        for cell in cells:
            submission = make_plan(cell.submission.job, self.prepared.target, trial.run)
            if digest_of(submission) != cell.digest:
                message = "the job's files have changed since the bench began"
                remedy = "run the command again: it measures the changed files as another bench"
                raise RsctlError(ExitCode.USAGE, error("changed", message, remedy))
        info, job = self.prepared.target.info, cells[0].submission.job
        nodes = failed_nodes(self._store, bench)
        if isinstance(trial, Pack):
            job = pack_job(cells, [numbers.index(one.cell) for one in trial.trials])
        job = with_own_folders(without_nodes(job, info, nodes), trial.run)
        if isinstance(trial, Pack) or job != cells[0].submission.job:
            submission = make_plan(job, self.prepared.target, trial.run)
        image = submission.plan.image
        image = replace(image, reference=bench.images.get(image.tag or ""))
        plan = replace(submission.plan, image=image)
        return replace(submission, plan=plan, text=cells[0].submission.text)


def _account(plan: Plan) -> str:
    """The scope of a target's quotas: a project and region, or a region."""
    return str(plan.request.get("url") or plan.request.get("region") or "")
