"""The live view: the log scrolls, and below it a status line with the metrics' sparklines."""

from __future__ import annotations

import sys
from itertools import groupby
from time import monotonic

from rich.console import Group
from rich.text import Text

from rsctl.api import Run, Work
from rsctl.api.logs import progress_bar
from rsctl.api.reconcile import read_waiting
from rsctl.cli.output import in_color
from rsctl.cli.views.run_text import format_event, summary_lines
from rsctl.cli.views.status_lines import StatusLines, spinner
from rsctl.findings import JobState
from rsctl.runs.stream.events import Event, LogEvent, ResultEvent, StateEvent, now, seconds_between
from rsctl.runs.stream.formatting import LineFormat, format_duration, format_number, sparkline
from rsctl.runs.stream.headline import Tally
from rsctl.runs.stream.machine_use import MachineUse
from rsctl.runs.stream.sanitize import sanitize
from rsctl.runs.stream.training_progress import TrainingProgress
from rsctl.runs.waiting import Waiting

_REDRAW_SECONDS = 0.1
_WAITING_SECONDS = 1.0
_METRIC_LINES = 2
_MORE = "  and {} more"
_MAX_NAMES = 3
_BEFORE_RUNNING = (JobState.QUEUED, JobState.STARTING)
_STYLES = {JobState.RUNNING: "green", JobState.CANCELLING: "yellow"}


class LiveView:
    """The view for a terminal, of a run made now or at `created`. `finish` removes the status
    line.
    """

    def __init__(
        self, run: str, replicas: list[str], work: Work, created: str | None = None
    ) -> None:
        self._run = run
        self._limit = work.timeout
        self._began: str | None = None
        self._progress = TrainingProgress(work.goal)
        self._machines = MachineUse()
        self._started = monotonic() - (seconds_between(created, now()) if created else 0.0)
        self._states: dict[str, JobState] = dict.fromkeys(replicas, JobState.QUEUED)
        self._state = JobState.STARTING
        self._drawn = 0.0
        self._wait: Waiting | None = None
        self._waiting_read = 0.0
        self._format = LineFormat(in_color(sys.stdout), replicas, shows_bars=False)
        self._live = StatusLines(sys.stdout, auto_refresh=False)
        self._live.start()

    def show(self, events: list[Event], tally: Tally) -> None:
        """Print the lines above the status line and redraw it, at most ten times a second."""
        self._progress.add(events)
        self._machines.add(events)
        for is_log, group in groupby(events, lambda event: isinstance(event, LogEvent)):
            batch = list(group)
            self._print(self._lines(batch) if is_log else self._messages(batch))
        if monotonic() - self._drawn > _REDRAW_SECONDS:
            self._drawn = monotonic()
            self._live.update(self._status(tally), refresh=True)

    def finish(self, result: ResultEvent, run: Run) -> None:
        """Remove the status line and show how the run ended."""
        self._live.stop()
        for line in summary_lines(result, run):
            self._print(sanitize(line))

    def close(self) -> None:
        """Restore the terminal's cursor, if `finish` has not."""
        self._live.stop()

    def _lines(self, events: list[Event]) -> str:
        lines = [event for event in events if isinstance(event, LogEvent)]
        return self._format.lines(lines).rstrip("\n")

    def _messages(self, events: list[Event]) -> str:
        for event in events:
            if isinstance(event, StateEvent):
                self._note(event)
        return sanitize("\n".join(filter(None, map(format_event, events))))

    def _print(self, text: str) -> None:
        if text:
            self._live.console.print(Text.from_ansi(text), soft_wrap=True)

    def _note(self, event: StateEvent) -> None:
        if event.replica is None:
            self._state = event.state
            self._began = self._began or event.time
        else:
            self._states[event.replica] = event.state

    def _status(self, tally: Tally) -> Group:
        elapsed = monotonic() - self._started
        style = _STYLES.get(self._state, "cyan")
        head = Text.assemble(
            (f"{spinner(elapsed)} {self._state.value}", f"bold {style}"),
            f"  {format_duration(elapsed)}  ",
            (format_states(self._states), "dim"),
            f"  {self._run}",
            no_wrap=True,
            overflow="ellipsis",
        )
        metrics = _metrics_lines(tally, self._live.console.width)
        progress = _line("  ".join(filter(None, (self._progress.format(), self._time_limit()))))
        machines = _line(self._machines.format(), "dim")
        waiting = _line(self._waiting(), "dim")
        parts = (head, waiting, progress, *metrics, machines, self._progress_bar())
        return Group(*filter(None, parts))

    def _waiting(self) -> str:
        """Why the run has no machines yet, and what comes next; empty once it has some."""
        if self._state not in _BEFORE_RUNNING:
            return ""
        if monotonic() > self._waiting_read + _WAITING_SECONDS:
            self._waiting_read = monotonic()
            self._wait = read_waiting(self._run)
        return f"waiting {self._wait.describe()}" if self._wait is not None else ""

    def _time_limit(self) -> str:
        """The remaining time until the job's limit, once it has begun; empty without a limit."""
        if self._limit is None or self._began is None:
            return ""
        left = self._limit - seconds_between(self._began, now())
        return f"limits.timeout in {format_duration(left)}"

    def _progress_bar(self) -> Text | None:
        """The progress bar of the first replica that shows one; all usually show the same."""
        for replica in self._states:
            if bar := progress_bar(self._run, replica):
                return Text(f"  {replica} | {bar}", "dim", no_wrap=True, overflow="ellipsis")
        return None


def format_states(states: dict[str, JobState]) -> str:
    """States as `3 running`; if states differ, the rarer states name their replicas: `62 running, 2
    failed (worker-3, worker-9)`.
    """
    by_state: dict[JobState, list[str]] = {}
    for replica, state in states.items():
        by_state.setdefault(state, []).append(replica)
    most = max(by_state.values(), key=len, default=[])
    return ", ".join(
        f"{len(names)} {state.value}" + (f" ({_some(names)})" if names is not most else "")
        for state, names in by_state.items()
    )


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_MAX_NAMES])
    return f"{shown}, ..." if len(names) > _MAX_NAMES else shown


def _line(text: str, style: str = "") -> Text | None:
    """A line of the status; no line for an empty text."""
    line = Text(f"  {sanitize(text)}", style, no_wrap=True, overflow="ellipsis")
    return line if text else None


def _metrics_lines(tally: Tally, width: int) -> list[Text]:
    """The metrics, as many as fit on two lines, and how many more there are."""
    names = [*tally.names()]
    lines, shown = [Text(no_wrap=True, overflow="ellipsis")], 0
    for name in names:
        part = _metric(name, tally)
        is_last = len(lines) == _METRIC_LINES
        room = width - len(_MORE.format(len(names))) * is_last
        if lines[-1].plain and lines[-1].cell_len + part.cell_len > room:
            if is_last:
                break
            lines.append(Text(no_wrap=True, overflow="ellipsis"))
        lines[-1].append_text(part)
        shown += 1
    if shown < len(names):
        lines[-1].append(_MORE.format(len(names) - shown), "dim")
    return lines if names else []


def _metric(name: str, tally: Tally) -> Text:
    values = tally.recent(name)
    last = f" {format_number(tally.last(name))}"
    return Text.assemble((f"  {name} ", "dim"), (sparkline(values, 12), "cyan"), last)
