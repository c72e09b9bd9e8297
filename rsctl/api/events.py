"""The events of a run for a follower, and the result at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from rsctl.api.metric_feed import MetricFeed
from rsctl.api.results import result_locations
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs import emulator
from rsctl.runs.cost import run_cost
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import Cursor, Event, LogEvent, ResultEvent, now
from rsctl.runs.stream.headline import Tally
from rsctl.targets import get
from rsctl.targets.base import Target

if TYPE_CHECKING:
    from rsctl.api.run_handle import Run


class JobFailed(RsctlError):
    """A job that did not succeed; `result` describes its end. Its findings are the known causes."""

    def __init__(self, result: ResultEvent) -> None:
        failure = result.first_failure
        who = f": {failure.replica} first, with exit code {failure.exit_code}" if failure else ""
        ended = error("job-failed", f"{result.run} {result.state.value}{who}")
        causes = failure.causes if failure else []
        super().__init__(ExitCode(result.exit_code), ended, *causes)
        self.result = result


class EventBatches:
    """Lists of events from the first on, with the metrics that the store has received since.

    An empty list comes now and then while nothing happens. `tally` has the statistics so far.
    `tail` leaves out the log before each replica's last lines; of these, only lines that pass the
    test `tail_of` count.
    """

    def __init__(
        self, run: Run, tail: int | None = None, tail_of: Callable[[LogEvent], bool] | None = None
    ) -> None:
        self.tally = Tally(run.record.metrics_spec)
        self._run, self._tail, self._tail_of = run, tail, tail_of

    def __iter__(self) -> Iterator[list[Event]]:
        run = self._run
        feed = MetricFeed(run.id, run.record.metrics_spec)
        self.tally = feed.tally
        target = get(run.record.target)
        cursor, skipped = self._beginning(target)
        for events in target.events(run.id, cursor, follow=True):
            yield feed.among([event for event in events if not _is_skipped(event, skipped)])
        if rest := feed.rest():
            yield rest
        run.reload()
        if run.is_rehearsed:
            emulator.end(run.id)

    def _beginning(self, target: Target) -> tuple[Cursor, Counter[str]]:
        """The cursor to begin at, and how many lines of each replica to leave out from there."""
        if self._tail is None:
            return {}, Counter()
        back = self._tail
        while True:
            cursor = target.tail(self._run.id, back)
            if self._tail_of is None or not back:
                return cursor, Counter()
            batches = target.events(self._run.id, dict(cursor), follow=False)
            try:
                lines = [event for each in batches for event in each if isinstance(event, LogEvent)]
            except RsctlError:  # a log that cannot be read does not prevent watching
                return cursor, Counter()
            passed: dict[str, list[int]] = {}
            total: Counter[str] = Counter()
            for line in lines:
                if self._tail_of(line):
                    passed.setdefault(line.replica, []).append(total[line.replica])
                total[line.replica] += 1
            is_all = not any(cursor.values())
            if is_all or all(len(passed.get(name, ())) >= self._tail for name in total):
                firsts = {name: at[-self._tail :][0] for name, at in passed.items()}
                return cursor, Counter(firsts)
            back *= 8

    def result(self, exit_code: int | None = None) -> ResultEvent:
        """How the run ended, with its statistics; it may still run if the caller left early."""
        return self._run.result(exit_code)


def make_result(
    run: str, known: RunRecord | None, metrics: dict[str, Any], exit_code: int
) -> ResultEvent:
    """The last event of a run that was followed; `known` is its record in the store."""
    if known is None:
        state = JobState.FAILED
        return ResultEvent(time=now(), run=run, state=state, exit_code=exit_code, metrics=metrics)
    return ResultEvent(
        time=now(),
        run=run,
        state=known.state,
        exit_code=exit_code,
        attempt=known.attempt,
        attempts=known.attempts,
        placements=known.placements,
        first_failure=known.first_failure,
        metrics=metrics,
        url=known.url,
        results=result_locations(known),
        cost=msgspec.to_builtins(run_cost(known)),
    )


def _is_skipped(event: Event, skipped: Counter[str]) -> bool:
    """Whether a line comes before the first one to show; counts it."""
    if not isinstance(event, LogEvent) or not skipped[event.replica]:
        return False
    skipped[event.replica] -= 1
    return True
