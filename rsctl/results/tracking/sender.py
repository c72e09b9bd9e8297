"""Sends a run's data in the store to one of its trackers, from the tracker's cursor on."""

from __future__ import annotations

from itertools import islice
from time import monotonic

import msgspec
from msgspec.structs import replace

from rsctl.bench.samples import samples
from rsctl.job.tracking import NOTIFY, PlannedTracker
from rsctl.results.tracking.cursor import Cursor, CursorFile, plan_of
from rsctl.results.tracking.run_files import run_files
from rsctl.runs.final_state import with_final_state
from rsctl.runs.home import is_rehearsed
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import MetricEvent, now, unix_time
from rsctl.runs.stream.headline import CHIEF, headline_series, is_chief
from rsctl.runs.stream.sanitize import sanitize_line
from rsctl.runs.tracker import DataGone, MetricPoint, Result, TrackedRun, Tracker, one_line
from rsctl.targets import in_cloud

_ROWS = 1000


class Sender:
    """One tracker of one run. Only the process that holds the run's sender lock may have one."""

    def __init__(self, store: Store, run: str, index: int, planned: PlannedTracker) -> None:
        self.planned = planned
        self._store, self._run, self._index = store, run, index
        self._file = CursorFile(run, index)
        self.cursor = self._file.read()
        self._tracker: Tracker | None = None
        self._due = 0.0

    def step(self) -> bool:
        """Send a thousand values at most, if that is due; whether there may be more to send now.

        Raises the errors of trackers; then the next call sends the same data again.
        """
        run = self._known()
        if run is None or self.cursor.is_complete:
            return False
        try:
            return self._step(run)
        except DataGone:
            self._write(Cursor())
            return True

    def _step(self, run: RunRecord) -> bool:
        tracker = self._tracker = self._tracker or self._make(run)
        if not self.cursor.has_begun:
            state = dict(self.cursor.state)
            tracker.begin(state)
            self._save(replace(self.cursor, has_begun=True, state=state))
        if monotonic() < self._due and not run.state.is_final:
            return False
        if self._send(tracker):
            return True
        self._due = monotonic() + tracker.seconds_between
        if run.state.is_final:
            self._end(tracker, run)
        return False

    def failed(self, problem: str) -> None:
        """Record that a call failed; the next one sends the same data again."""
        self._tracker = None  # after a failure it may be in any state
        self._write(replace(self.cursor, problem=sanitize_line(one_line(problem)), tried=now()))

    def _known(self) -> RunRecord | None:
        run = self._store.get(self._run)
        return run and with_final_state(run)

    def _make(self, run: RunRecord) -> Tracker:
        from rsctl.results.tracking.choice import open_tracker

        plan = plan_of(run)
        tracked = TrackedRun(run, plan.parameters if plan else {})
        return open_tracker(self.planned, self._index, tracked)

    def _send(self, tracker: Tracker) -> bool:
        rows = list(islice(self._store.metrics(self._run, self.cursor.row), _ROWS))
        if not rows:
            return False
        state, steps = dict(self.cursor.state), dict(self.cursor.steps)
        tracker.send([_point(metric, steps) for _, metric in rows], state)
        cursor = replace(self.cursor, row=rows[-1][0], steps=steps, state=state)
        self._save(cursor)
        return True

    def _end(self, tracker: Tracker, run: RunRecord) -> None:
        """Send the end, once; a second time if the cloud's log has come whole only after it."""
        is_whole = is_complete(self._store, run)
        mark = f"{run.state.value}{' complete' if is_whole else ''}"
        if self.cursor.ended_as != mark:
            if is_whole and not self.cursor.has_headlines:
                self._send_headlines(tracker, run)
            state = dict(self.cursor.state)
            with_files = is_whole and tracker.takes_files
            tracker.end(_result(self._store, run, with_files=with_files), state)
            cursor = replace(self.cursor, state=state, ended_as=mark, is_complete=is_whole)
            self._save(cursor)

    def _send_headlines(self, tracker: Tracker, run: RunRecord) -> None:
        """The series of metrics that the chief does not log: its steps are known now."""
        names = self._store.without_chief(run.run)
        events: dict[str, list[MetricEvent]] = {name: [] for name in names}
        for _, metric in self._store.metrics(run.run) if names else ():
            if metric.name in events:
                events[metric.name].append(metric)
        state, steps = dict(self.cursor.state), dict(self.cursor.steps)
        for name, logged in events.items():
            series = headline_series(logged, run.metrics_spec.get(name))
            points = [_point(replace(each, replica=CHIEF), steps) for each in series]
            for start in range(0, len(points), _ROWS):
                tracker.send(points[start : start + _ROWS], state)
        self._save(replace(self.cursor, steps=steps, state=state, has_headlines=True))

    def _save(self, cursor: Cursor) -> None:
        """Save the new position, and clear an earlier failure."""
        self._write(replace(cursor, problem=None))

    def _write(self, cursor: Cursor) -> None:
        self._file.write(cursor)
        self.cursor = cursor


def is_sent(run: RunRecord, planned: PlannedTracker) -> bool:
    """Whether a run's metrics go to a tracker: the results of a rehearsal stay on this machine."""
    is_local = planned.kind == "tensorboard" and "://" not in planned.location
    return is_local or planned.kind == NOTIFY or not is_rehearsed(run.run)


def _point(metric: MetricEvent, steps: dict[str, int]) -> MetricPoint:
    tag = metric.name if is_chief(metric.replica) else f"{metric.name}/{metric.replica}"
    step = metric.step
    if step is None:
        step = steps.get(tag, 0)
        steps[tag] = step + 1
    return MetricPoint(tag, step, unix_time(metric.time) or 0.0, metric.value)


def is_complete(store: Store, run: RunRecord) -> bool:
    """Whether nothing more can come of a run that has ended."""
    if in_cloud(run.url) is None or not run.is_located:
        return True  # of this machine, or refused: no job of a cloud has a log
    kept = store.progress(run.run)
    return bool(kept and msgspec.json.decode(kept).get("is_complete"))


def _result(store: Store, run: RunRecord, *, with_files: bool) -> Result:
    found = samples(store, run)
    failure = run.first_failure
    texts = {
        "reason": run.reason,
        "exit_code": None if run.exit_code is None else str(run.exit_code),
        "first_failure": failure and failure.reason,
        "settings": " ".join(run.settings) or None,
    }
    values = {name: f.value for name, f in found.items() if f.value is not None}
    return Result(
        state=run.state,
        seconds=unix_time(run.ended or now()) or 0.0,
        samples=values,
        texts={name: sanitize_line(text)[:5000] for name, text in texts.items() if text},
        files=run_files(store, run, values) if with_files else (),
    )
