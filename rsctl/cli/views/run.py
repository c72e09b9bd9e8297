"""Views of a run in progress: NDJSON, plain lines, or a live terminal view."""

from __future__ import annotations

import sys
from typing import IO

from rsctl.api import Run, Work
from rsctl.cli.follow import View
from rsctl.cli.output import can_redraw, in_color
from rsctl.cli.show import print_events, print_important, print_message
from rsctl.cli.views.run_text import format_event, summary_lines
from rsctl.findings import ExitCode
from rsctl.runs.stream.events import Event, LogEvent, ResultEvent
from rsctl.runs.stream.formatting import LineFormat
from rsctl.runs.stream.headline import Tally


def make_view(
    output: str, run: str, replicas: list[str], work: Work, created: str | None = None
) -> View:
    """The view for `-o` and the types of standard output and standard error.

    `created` is when the run was made, if that was before now.
    """
    if output == "json":
        return JsonView()
    if can_redraw(sys.stdout, sys.stderr):
        from rsctl.cli.views.run_live import LiveView

        return LiveView(run, replicas, work, created)
    return PlainView(sys.stdout, replicas)


class JsonView:
    """Prints one event per line."""

    def show(self, events: list[Event], _tally: Tally) -> None:
        """Write the events."""
        if events:
            print_events(events)

    def finish(self, result: ResultEvent, _run: Run) -> None:
        """Write the result."""
        print_events([result])

    def close(self) -> None:
        """Do nothing: no resource is open."""


class PlainView:
    """Prints log lines on stdout; states, findings and the end on stderr."""

    def __init__(self, out: IO[str], replicas: list[str]) -> None:
        self._out = out
        self._format = LineFormat(in_color(out), replicas)

    def show(self, events: list[Event], _tally: Tally) -> None:
        """Write the events in their order."""
        lines: list[LogEvent] = []
        for event in events:
            if isinstance(event, LogEvent):
                lines.append(event)
            elif text := format_event(event):
                self._write(lines)
                lines = []
                print_message(text)
        self._write(lines)

    def finish(self, result: ResultEvent, run: Run) -> None:
        """Show how the run ended; with --quiet, still why it failed."""
        write = print_message if result.exit_code == ExitCode.SUCCEEDED else print_important
        for line in summary_lines(result, run):
            write(line)

    def close(self) -> None:
        """Do nothing: no resource is open."""

    def _write(self, lines: list[LogEvent]) -> None:
        if lines:
            self._out.write(self._format.lines(lines))
            self._out.flush()
