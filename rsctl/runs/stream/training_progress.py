"""How far a training is, by the steps of its metrics, its log and its arguments.

What it reads is a job's own output, so it is for display alone.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic
from typing import NamedTuple, Optional

from rsctl.runs.stream.events import Event, LogEvent, MetricEvent, seconds_between
from rsctl.runs.stream.formatting import format_duration
from rsctl.runs.stream.headline import is_chief
from rsctl.runs.stream.metrics import MACHINES

_STEPS = frozenset(
    {"max_steps", "steps", "num_steps", "train_steps", "total_steps", "max_train_steps"}
    | {"num_train_steps", "training_steps", "max_iters", "iters", "iterations", "num_iterations"}
    | {"train_iters", "max_iterations"}
)
_EPOCHS = frozenset({"epochs", "num_epochs", "max_epochs", "num_train_epochs", "n_epochs"})
_EPOCH_METRICS = frozenset({"epoch", "epochs"})
_IN_LOG = re.compile(
    r"\b(epoch|step|iter(?:ation)?)s?\s*[:=#]?\s*[\[(]?\s*(\d{1,12})\s*(?:/|of)\s*(\d{1,12})\b",
    re.IGNORECASE,
)
_LINE = 400  # characters of a line that are examined
_WINDOW = 60
_MOST_SERIES = 50
_IDLE_SECONDS = 10.0
_IDLE_INTERVALS = 5


class Goal(NamedTuple):
    """The number of steps or epochs of a training, as far as its arguments say."""

    steps: Optional[float] = None
    epochs: Optional[float] = None


def goal_of(arguments: Iterable[str]) -> Goal:
    """The goal in a command's arguments: `--max-steps 300`, `--epochs=3`, `trainer.max_steps=9`."""
    found: dict[str, float] = {}
    words = list(arguments)
    for word, following in zip(words, [*words, ""][1:], strict=True):
        name, equals, value = word.lstrip("-").partition("=")
        key = name.replace("-", "_").lower().rpartition(".")[2]
        kind = "steps" if key in _STEPS else "epochs" if key in _EPOCHS else None
        number = _number(value if equals else following)
        if kind and number:
            found[kind] = number
    return Goal(**found)


class _Series:
    """Recent times and values of a counter."""

    def __init__(self) -> None:
        self.points: deque[tuple[str, float]] = deque(maxlen=_WINDOW)
        self.count = 0

    def add(self, time: str, value: float) -> None:
        if self.points and value < self.points[-1][1]:  # a further attempt
            self.points.clear()
        if not self.points or value > self.points[-1][1]:
            self.points.append((time, value))
            self.count += 1

    @property
    def last(self) -> float:
        return self.points[-1][1]

    def interval(self) -> float | None:
        """Seconds from one value to the next on average; None while that is unknown."""
        rate = self.rate()
        return (self.last - self.points[0][1]) / rate / (len(self.points) - 1) if rate else None

    def rate(self) -> float | None:
        """The rate per second; None while it is unknown."""
        (start, first), (end, last) = self.points[0], self.points[-1]
        try:
            seconds = seconds_between(start, end)
        except ValueError:
            return None
        return (last - first) / seconds if seconds > 0 else None


class TrainingProgress:
    """The step, the rate and the remaining time of a run, by its events."""

    def __init__(self, goal: Goal, clock: Callable[[], float] = monotonic) -> None:
        self._goal, self._clock = goal, clock
        self._moved = clock()
        self._steps: dict[tuple[str, str], _Series] = {}
        self._epochs = _Series()
        self._logged_steps = _Series()

    def add(self, events: Iterable[Event]) -> None:
        """Take events; other replicas' events count if the chief logs no steps."""
        before = self._position()
        for event in events:
            if isinstance(event, MetricEvent):
                self._add_metric(event)
            elif isinstance(event, LogEvent) and is_chief(event.replica):
                self._add_line(event)
        if self._position() != before:
            self._moved = self._clock()

    def format(self) -> str:
        """`step 120 of 300  8.3 steps/s  0:22 left`; empty while it is unknown.

        A training that has stopped for a while has no rate: `step 300 of 300  no step for 2:10`.
        """
        steps, epochs = self._step_series(), self._epochs
        parts, left, idle = [], None, self._idle_seconds()
        if epochs.points:
            parts.append(f"epoch {epochs.last:.4g}{_of(epochs, self._goal.epochs)}")
            left = _left(epochs, self._goal.epochs)
        if steps is not None:
            parts.append(f"step {steps.last:,.0f}{_of(steps, self._goal.steps)}")
            if (rate := steps.rate()) and not idle:
                parts.append(f"{rate:.3g} steps/s" if rate > 1 else f"{1 / rate:.3g} s/step")
            left = _left(steps, self._goal.steps) if self._goal.steps else left
        if idle:
            parts.append(f"no {'step' if steps else 'epoch'} for {format_duration(idle)}")
        elif left is not None:
            parts.append(f"{format_duration(left)} left")
        return "  ".join(parts)

    def _position(self) -> tuple[float | None, float | None]:
        steps, epochs = self._step_series(), self._epochs
        return steps.last if steps else None, epochs.last if epochs.points else None

    def _idle_seconds(self) -> float:
        """How long there was no step, or without steps no epoch; 0 if that is not long for it.

        By the clock of this machine: the times of a cloud's log may be those of another clock.
        """
        series = self._step_series() or self._epochs
        usual = series.interval() if series.points else None
        if usual is None:
            return 0.0
        idle = self._clock() - self._moved
        return idle if idle > max(_IDLE_SECONDS, _IDLE_INTERVALS * usual) else 0.0

    def _add_metric(self, event: MetricEvent) -> None:
        if event.name.startswith(MACHINES):
            return
        if event.name.rpartition("/")[2] in _EPOCH_METRICS and is_chief(event.replica):
            self._epochs.add(event.time, event.value)
        key = event.name, event.replica
        if event.step is not None and (key in self._steps or len(self._steps) < _MOST_SERIES):
            self._steps.setdefault(key, _Series()).add(event.time, event.step)

    def _add_line(self, event: LogEvent) -> None:
        match = _IN_LOG.search(event.text[:_LINE])
        if match is None or not 0 < int(match[2]) <= int(match[3]):
            return
        if match[1].lower() == "epoch":
            self._goal = self._goal._replace(epochs=self._goal.epochs or float(match[3]))
            self._epochs.add(event.time, float(match[2]))
        else:
            self._goal = self._goal._replace(steps=self._goal.steps or float(match[3]))
            self._logged_steps.add(event.time, float(match[2]))

    def _step_series(self) -> _Series | None:
        """The chief's fastest-growing series, otherwise another replica's, otherwise the log's."""
        known = {key: series for key, series in self._steps.items() if series.points}
        chief = [series for (_, replica), series in known.items() if is_chief(replica)]
        own = max(chief or known.values(), key=lambda series: series.count, default=None)
        return own or (self._logged_steps if self._logged_steps.points else None)


def _of(series: _Series, goal: float | None) -> str:
    """The goal; nothing if it was exceeded, since it then counts something else."""
    return f" of {goal:,.10g}" if goal and series.last <= goal else ""


def _left(series: _Series, goal: float | None) -> float | None:
    """Seconds until the goal at the present rate; None if that is unknown, and at the goal."""
    rate = series.rate()
    if not goal or not rate or series.last >= goal:
        return None
    return (goal - series.last) / rate


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < 1e12 else None
