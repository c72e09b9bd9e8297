"""Durations of a run's phases: queue, start, first step, training, each step."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from rsctl.bench.steady import transient
from rsctl.findings import JobState
from rsctl.runs.folder import RunFolder
from rsctl.runs.reader import StateReader
from rsctl.runs.store import RunRecord
from rsctl.runs.stream.events import StateEvent, parse_time

Measured = tuple[float | None, str | None]
"""Seconds, or None and why they are unknown."""


def phases_of(run: RunRecord, first_value: str | None) -> dict[str, Measured]:
    """Seconds of a run's phases; `first_value` is when its first metric came.

    `queue`: until machines were being prepared. `start`: until all was running for the first time.
    `first_step`: until the first metric. `time`: from the start of the work to its end, with its
    restarts, because the last attempt of a run that resumed did only a part of the work. `total`:
    from the submission to the end.
    """
    states = _states(run.run)
    worked = next((event.attempt for event in states if event.state is JobState.RUNNING), None)
    attempt = [event for event in states if event.attempt == (worked or run.attempt)]
    starting = _first(attempt, JobState.STARTING)
    running = _first(attempt, JobState.RUNNING) or run.started
    later = first_value if first_value and running and first_value >= running else None
    return {
        "queue": _between(run.created, starting or running, "its start was not observed"),
        "start": _between(starting, running, "its start was not observed"),
        "first_step": _between(running, later, _why_no_first(first_value, running)),
        "time": _between(running, run.ended, "it did not run to completion"),
        "total": _between(run.created, run.ended, "it has not ended"),
    }


def _why_no_first(first_value: str | None, running: str | None) -> str:
    if first_value is None:
        return "its log has no metric"
    return (
        "its first metric is from before its start"
        if running
        else ("it was not observed while running")
    )


class StepDurations:
    """The seconds of each step of one series, of one metric and one replica."""

    def __init__(self) -> None:
        self.seconds = array("d")
        self._before: tuple[float, int] | None = None

    @property
    def has_step(self) -> bool:
        """Whether a value had a step; the first one has no duration."""
        return self._before is not None

    def add(self, seconds: float, step: int | None) -> None:
        """Take a value's time, in seconds from any moment on, and its step.

        Of several values of one step only the first counts.
        """
        if step is None or (self._before is not None and step == self._before[1]):
            return
        if self._before is not None:
            took, steps = seconds - self._before[0], step - self._before[1]
            if steps > 0 and took >= 0:
                self.seconds.append(took / steps)
        self._before = seconds, step


def steady_steps(series: Iterable[StepDurations]) -> Sequence[float]:
    """Seconds of each step after the warm-up, by the series that has the most steps."""
    best = max((each.seconds for each in series), key=len, default=array("d"))
    return best[transient(best) :]


def _states(run: str) -> list[StateEvent]:
    """The states of the job itself, from its folder."""
    events = StateReader(RunFolder(run).states).read()
    return [e for e in events if isinstance(e, StateEvent) and e.replica is None]


def _first(events: Iterable[StateEvent], state: JobState) -> str | None:
    return next((event.time for event in events if event.state is state), None)


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Seconds from a time to a later one; None if one is unknown or invalid, or clocks disagree."""
    try:
        seconds = (parse_time(end or "") - parse_time(start or "")).total_seconds()
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


def _between(start: str | None, end: str | None, why: str) -> Measured:
    seconds = seconds_between(start, end)
    return seconds, None if seconds is not None else why
