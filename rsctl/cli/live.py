"""The live view: the log scrolls, and below it a status line with the metrics' sparklines."""

from __future__ import annotations

import sys
from itertools import groupby
from time import monotonic

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rsctl.api import Run
from rsctl.api.logs import progress_bar
from rsctl.cli.output import in_color
from rsctl.cli.run_text import format_event, summary_lines
from rsctl.findings import JobState
from rsctl.stream.events import Event, LogEvent, ResultEvent, StateEvent
from rsctl.stream.formatting import LineFormat, format_duration, format_number, sparkline
from rsctl.stream.headline import Tally
from rsctl.stream.sanitize import sanitize

_REDRAW_SECONDS = 0.1
_MAX_METRICS = 4
_STYLES = {JobState.RUNNING: "green", JobState.CANCELLING: "yellow"}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class LiveView:
    """For a terminal. The status line is left out of what stays on the screen."""

    def __init__(self, run: str, replicas: list[str]) -> None:
        self._run = run
        self._started = monotonic()
        self._states: dict[str, JobState] = dict.fromkeys(replicas, JobState.QUEUED)
        self._state = JobState.STARTING
        self._drawn = 0.0
        color = in_color(sys.stdout)
        self._console = Console(highlight=False, markup=False, emoji=False, no_color=not color)
        self._format = LineFormat(color, replicas)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self, events: list[Event], tally: Tally) -> None:
        """Print the lines above the status line and redraw it, at most ten times a second."""
        for is_log, group in groupby(events, lambda event: isinstance(event, LogEvent)):
            batch = list(group)
            self._print(self._lines(batch) if is_log else self._messages(batch))
        if monotonic() - self._drawn > _REDRAW_SECONDS:
            self._drawn = monotonic()
            self._live.update(self._status(tally), refresh=True)

    def finish(self, result: ResultEvent, run: Run) -> None:
        """Take the status line away and show how it ended."""
        self._live.stop()
        for line in summary_lines(result, run):
            self._print(sanitize(line))

    def close(self) -> None:
        """Give the terminal its cursor back, if `finish` has not."""
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
            self._console.print(Text.from_ansi(text), soft_wrap=True)

    def _note(self, event: StateEvent) -> None:
        if event.replica is None:
            self._state = event.state
        else:
            self._states[event.replica] = event.state

    def _status(self, tally: Tally) -> Group:
        elapsed = monotonic() - self._started
        spinner = _SPINNER[int(elapsed * 10) % len(_SPINNER)]
        style = _STYLES.get(self._state, "cyan")
        head = Text.assemble(
            (f"{spinner} {self._state.value}", f"bold {style}"),
            f"  {self._run}  {format_duration(elapsed)}  ",
            (_count_states(self._states), "dim"),
            no_wrap=True,
            overflow="ellipsis",
        )
        return Group(*filter(None, (head, _metrics_line(tally), self._progress_bar())))

    def _progress_bar(self) -> Text | None:
        """The bar of the first replica that shows one; the others' are usually the same."""
        for replica in self._states:
            if bar := progress_bar(self._run, replica):
                return Text(f"  {replica} | {bar}", "dim", no_wrap=True, overflow="ellipsis")
        return None


def _count_states(states: dict[str, JobState]) -> str:
    counts: dict[str, int] = {}
    for state in states.values():
        counts[state.value] = counts.get(state.value, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _metrics_line(tally: Tally) -> Text | None:
    line = Text(no_wrap=True, overflow="ellipsis")
    names = [*tally.names()]
    for name in names[:_MAX_METRICS]:
        values = tally.recent(name)
        line.append(f"  {name} ", "dim")
        line.append(sparkline(values, 12), "cyan")
        line.append(f" {format_number(values[-1])}")
    return line if names else None
