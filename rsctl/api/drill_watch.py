"""Watches one run of a drill: its steps, the strike, and what the run did after it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import NamedTuple, Optional

import msgspec

from rsctl.api.drill_checkpoint import CheckpointFiles, checkpoint_files, has_files
from rsctl.api.run_handle import Run
from rsctl.findings import JobState, RsctlError
from rsctl.runs import emulator
from rsctl.runs.findings import RESTART_IN_PLACE
from rsctl.runs.stream.events import Event, FindingEvent, MetricEvent, StateEvent, now
from rsctl.runs.stream.headline import is_chief
from rsctl.targets.local.strikes import NotStruck, Strike

_CONFIRM_SECONDS = 0.3
_CANCEL_SECONDS = 300.0


class Point(NamedTuple):
    """A value of a metric at a step of the chief."""

    time: str
    step: int
    value: float


class StrikePlan(NamedTuple):
    """When and how a run is struck: at the first value of the metric from `step` on.

    `notice` are the seconds after which the strike is finished; `confirm` is whether a strike that
    takes effect later has done so.
    """

    step: int
    strike: Callable[[Run], Strike]
    notice: float = 0.0
    confirm: Optional[Callable[[Run], bool]] = None


class Observation(msgspec.Struct, kw_only=True):
    """A run from its start to its end.

    `points` are the chief's values by metric. `struck_at` is the chief's last step when the run was
    struck, `strike_time` the time, `effect_time` when that was done, `strike` the text of what was
    struck, `not_struck` the reason if nothing was. `restarts` are the times at which the run
    started again by itself, after the strike if there is one.
    `hung` are the seconds for which nothing happened before the drill cancelled it. `files` are the
    checkpoints at the end of what was struck, `first_saved` the step at which the first was there.
    `reached` is the last step that each replica reported.
    """

    run: str
    state: JobState = JobState.QUEUED
    exit_code: int = 0
    failure: str = ""
    points: dict[str, list[Point]] = {}
    reached: dict[str, int] = {}
    first_saved: Optional[int] = None
    struck_at: Optional[int] = None
    strike_time: str = ""
    effect_time: str = ""
    strike: str = ""
    not_struck: str = ""
    restarts: list[str] = []
    hung: Optional[float] = None
    files: CheckpointFiles = CheckpointFiles()
    location: str = ""
    seconds: float = 0.0
    per_hour: Optional[float] = None

    @property
    def has_succeeded(self) -> bool:
        """Whether it ended as succeeded."""
        return self.state is JobState.SUCCEEDED


class RunWatch:
    """Follows a run to its end, strikes it by a plan, and cancels it if it hangs.

    Only values of `metric` count as steps, by default values of any metric. A run hangs that makes
    no progress for `patience` seconds, after the strike if there is one.
    """

    def __init__(
        self,
        run: Run,
        plan: StrikePlan | None = None,
        metric: str | None = None,
        patience: float | None = None,
    ) -> None:
        self._run, self._plan = run, plan
        self._metric, self._patience = metric, patience
        self._strike: Strike | None = None
        self._last_step: Optional[int] = None
        self._progress = self._struck_since = self._confirm_at = monotonic()
        self._is_due = self._is_finished = self._is_confirmed = False
        self._files: CheckpointFiles | None = None
        self.seen = Observation(
            run=run.id,
            points={},
            reached={},
            restarts=[],
            location=run.locations().get("checkpoints", ""),
        )

    def follow(self) -> Observation:
        """The observation at the end of the run. Raises RsctlError."""
        for events in self._run.event_batches():
            for event in events:
                self._take(event)
            self._look()
        return self._conclude()

    def end(self) -> None:
        """Cancel the run after an interruption, and wait for its end; leaves nothing running."""
        self._take_back()
        self._run.cancel(_CANCEL_SECONDS)
        if self._run.is_rehearsed:
            emulator.end(self._run.id)

    def _take(self, event: Event) -> None:
        if isinstance(event, MetricEvent) and event.step is not None:
            if self._metric in (None, event.name):
                self.seen.reached[event.replica] = event.step
            if not is_chief(event.replica):
                return
            point = Point(event.time, event.step, event.value)
            self.seen.points.setdefault(event.name, []).append(point)
            if self._metric in (None, event.name):
                self._last_step = event.step
                self._is_due |= self._plan is not None and event.step >= self._plan.step
                self._progress = monotonic()
        elif isinstance(event, StateEvent):
            self._progress = monotonic()
            if event.replica is None and event.attempt > 1:
                self._restarted(event.time)
        elif isinstance(event, FindingEvent) and event.finding.code == RESTART_IN_PLACE:
            self._progress = monotonic()
            self._restarted(event.time)

    def _restarted(self, time: str) -> None:
        if self._plan is None:
            self.seen.restarts.append(time)
            return
        if self._strike is None or time <= self.seen.strike_time:
            return  # a cloud may report its first start again
        if self._files is None:
            self._files = checkpoint_files(self.seen.location)
        self.seen.restarts.append(time)

    def _look(self) -> None:
        """The steps that are due by the time and by the events so far."""
        if self.seen.first_saved is None and self._last_step is not None:
            self.seen.first_saved = self._last_step if has_files(self.seen.location) else None
        plan, waited = self._plan, monotonic() - self._struck_since
        if plan is not None and self._strike is None:
            if self._is_due and not self.seen.not_struck:
                self._hit(plan)
            return
        if plan is not None and self._strike is not None:
            self._confirm(plan)
            if not self._is_finished and waited >= plan.notice:
                self._is_finished = True
                if not self.seen.restarts:
                    self._strike.finish()
        idle = monotonic() - self._progress
        has_notice = plan is not None and waited <= plan.notice
        if self.seen.hung is None and not has_notice and idle > (self._patience or idle):
            self.seen.hung = idle
            self._take_back()
            self._run.request_cancel()

    def _hit(self, plan: StrikePlan) -> None:
        self.seen.struck_at, self.seen.strike_time = self._last_step, now()
        try:
            self._strike = plan.strike(self._run)
        except (NotStruck, RsctlError) as problem:
            self.seen.not_struck = getattr(problem, "summary", str(problem))
            return
        self.seen.strike, self.seen.effect_time = self._strike.text, now()
        self._struck_since = self._progress = monotonic()

    def _confirm(self, plan: StrikePlan) -> None:
        if plan.confirm is None or self._is_confirmed or monotonic() < self._confirm_at:
            return
        self._confirm_at = monotonic() + _CONFIRM_SECONDS
        try:
            self._is_confirmed = plan.confirm(self._run)
        except (NotStruck, RsctlError):  # the emulator has ended
            return

    def _take_back(self) -> None:
        if self._strike is not None:
            self._strike.undo()

    def _conclude(self) -> Observation:
        seen, record = self.seen, self._run.record
        seen.state = record.state
        seen.exit_code = int(record.state.exit_code)
        failure = record.first_failure
        last = (
            next((line for line in reversed(failure.lines) if line.strip()), "") if failure else ""
        )
        seen.failure = ": ".join(filter(None, [record.reason or "", last.strip()[:200]]))
        seen.files = self._files or checkpoint_files(seen.location)
        seen.seconds = self._run.goodput().seconds
        seen.per_hour = (record.plan.get("cost") or {}).get("per_hour")
        if self._plan is None or seen.not_struck:
            return seen
        if self._strike is None:
            last_step = "no step" if self._last_step is None else f"step {self._last_step}"
            seen.not_struck = f"the run ended at {last_step}, before step {self._plan.step}"
        elif self._plan.confirm is not None and not self._is_confirmed:
            seen.not_struck = "the emulator did not have to refuse a machine"
        return seen
