"""A run from its submission to its end: its states or phases, each with its cause and whether it is
paid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Optional

from rsctl.findings import JobState
from rsctl.runs.folder import RunFolder
from rsctl.runs.goodput import Span
from rsctl.runs.reader import StateReader
from rsctl.runs.records import PHASES, RunRecord
from rsctl.runs.stream.events import Event, StateEvent, now, parse_time
from rsctl.target_info import bills

SECOND = 1_000_000
"""Microseconds."""

_CAUSES: Mapping[JobState, Optional[str]] = {
    JobState.QUEUED: "queue",
    JobState.STARTING: "machines",
    JobState.RUNNING: None,
    JobState.CANCELLING: "end",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def spans_of(run: RunRecord, found: Iterable[Event] | None = None) -> list[Span]:
    """The states of a run, from its submission to its end or to now, each with its cause.

    The phases that a cloud reports count instead of the states, where there are any. `found` are
    the events of the run's folder, if they have been read.
    """
    end = moment(run.ended or now())
    found = StateReader(RunFolder(run.run).states).read() if found is None else found
    events = [event for event in found if isinstance(event, StateEvent)]
    states = list(_states(run, events, end))
    phases = _phases(run, end)
    if not phases:
        return states
    first, last = phases[0].start, phases[-1].end
    before = [span._replace(end=min(span.end, first)) for span in states if span.start < first]
    after = [span._replace(start=max(span.start, last)) for span in states if span.end > last]
    return [*before, *phases, *after]


def _states(run: RunRecord, events: list[StateEvent], end: int) -> Iterator[Span]:
    pays_start = not bills(run.target)
    ends = {attempt.attempt: moment(attempt.ended) for attempt in run.attempts}
    time, state, attempt = moment(run.created), JobState.QUEUED, 1
    has_run = False
    for event in [e for e in events if e.replica is None] or _recorded(run):
        since = min(max(time, _entered(event, events, time, ends)), max(end, time))
        if event.attempt > attempt and attempt in ends:
            since = max(since, min(ends[attempt], end))
        has_run = has_run or state is JobState.RUNNING
        yield _span(time, since, state, attempt, pays_start, has_run)
        time, state, attempt = since, event.state, event.attempt
        if state.is_final:
            return
    yield _span(time, max(time, end), state, attempt, pays_start, has_run)


def _span(
    start: int, end: int, state: JobState, attempt: int, pays_start: bool, has_run: bool
) -> Span:
    is_paid = (
        state is JobState.RUNNING
        or (state is JobState.STARTING and pays_start)
        or (state is JobState.CANCELLING and (has_run or pays_start))
    )
    return Span(start, end, _CAUSES.get(state, "unknown"), is_paid, attempt)


def _entered(
    event: StateEvent, events: Iterable[StateEvent], before: int, ends: Mapping[int, int]
) -> int:
    """When a job entered a state.

    Of a job that runs again, Vertex AI tells only when it ran first: it runs since all of its
    replicas have printed their first line.
    """
    time = moment(event.time)
    if event.state is not JobState.RUNNING or time >= max(before, ends.get(event.attempt - 1, 0)):
        return time
    starts = [
        moment(one.time)
        for one in events
        if one.replica and one.attempt == event.attempt and one.state is JobState.RUNNING
    ]
    return max(starts, default=time)


def _recorded(run: RunRecord) -> Iterator[StateEvent]:
    """The states of a run without a folder."""
    if run.started:
        yield StateEvent(time=run.started, state=JobState.RUNNING)
    if run.ended:
        yield StateEvent(time=run.ended, state=run.state)


def _phases(run: RunRecord, end: int) -> list[Span]:
    """The phases that a cloud reports, up to the end of the run."""
    value = run.fact(PHASES)
    spans: list[Span] = []
    for phase in value if isinstance(value, list) else ():
        if not isinstance(phase, dict) or "start" not in phase:  # of an earlier version
            return []
        start = moment(phase["start"])
        if spans:
            spans[-1] = spans[-1]._replace(end=start)
        spans.append(Span(start, end, phase["cause"], bool(phase["billed"])))
    return [span for span in spans if span.start <= span.end]


def moment(time: str) -> int:
    """Microseconds since 1970. Raises ValueError."""
    return (parse_time(time) - _EPOCH) // _MICROSECOND
