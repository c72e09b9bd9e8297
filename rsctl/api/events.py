"""The events of a run for a follower, and the result at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from rsctl.api.metric_feed import MetricFeed
from rsctl.api.results import result_locations
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs import emulator
from rsctl.runs.cost import run_cost
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import Event, ResultEvent, now
from rsctl.runs.stream.headline import Tally
from rsctl.targets import get

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
    `tail` leaves out the log before each replica's last lines.
    """

    def __init__(self, run: Run, tail: int | None = None) -> None:
        self.tally = Tally(run.record.metrics_spec)
        self._run, self._tail = run, tail

    def __iter__(self) -> Iterator[list[Event]]:
        run = self._run
        feed = MetricFeed(run.id, run.record.metrics_spec)
        self.tally = feed.tally
        target = get(run.record.target)
        cursor = {} if self._tail is None else target.tail(run.id, self._tail)
        for events in target.events(run.id, cursor, follow=True):
            yield feed.among(events)
        if rest := feed.rest():
            yield rest
        run.reload()
        if run.is_rehearsed:
            emulator.end(run.id)

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
