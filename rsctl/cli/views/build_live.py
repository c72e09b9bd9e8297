"""The live view of a build: a line for each finished step, above the steps in progress."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from rsctl.api import BuildEvent, BuildOutput, BuildStep
from rsctl.cli.views.build_text import format_build_finding, format_seconds, is_notable
from rsctl.cli.views.status_lines import StatusLines, spinner
from rsctl.findings import Finding
from rsctl.runs.stream.formatting import format_duration
from rsctl.runs.stream.sanitize import sanitize, sanitize_line

_REDRAWS_A_SECOND = 10
_ONE_LINE: Any = {"no_wrap": True, "overflow": "ellipsis"}


class LiveBuildView:
    """The view for a terminal. `finish` removes the steps in progress."""

    def __init__(self) -> None:
        self._running: dict[tuple[int, str], float] = {}
        self._total = 0
        self._line = ""
        self._live = StatusLines(
            sys.stderr,
            get_renderable=self._status,
            refresh_per_second=_REDRAWS_A_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def show(self, event: BuildEvent) -> None:
        """Print the finished steps and record the steps in progress."""
        if isinstance(event, Finding):
            self._live.console.print(
                Text.from_ansi(sanitize(format_build_finding(event))), soft_wrap=True
            )
        elif isinstance(event, BuildOutput):
            self._line = sanitize_line(event.line) or self._line
        elif event.seconds is None:
            self._running[event.number, event.instruction] = monotonic()
            self._total = event.total or self._total
            self._line = ""
        else:
            self._end(event)

    def finish(self) -> None:
        """Remove the steps in progress."""
        self._running, self._line = {}, ""
        self._live.stop()

    def _end(self, step: BuildStep) -> None:
        self._running.pop((step.number, step.instruction), None)
        self._line = ""
        self._total = step.total or self._total
        if step.number or is_notable(step):
            self._live.console.print(_ended(step))

    def _status(self) -> Group | Text:
        running = dict(self._running)
        if not running:
            return Text(f"{spinner(monotonic())} {self._line}" if self._line else "", **_ONE_LINE)
        (number, instruction), started = list(running.items())[-1]
        elapsed = monotonic() - started
        number_of = f"{number:>{len(str(self._total))}}/{self._total} " if number else ""
        head = _row(
            Text(f"{spinner(elapsed)} {number_of}", "bold cyan"),
            Text(sanitize_line(instruction)),
            Text(format_duration(elapsed)),
        )
        line = Text(f"  {self._line}", "dim", **_ONE_LINE)
        return Group(head, line)


def _ended(step: BuildStep) -> Table:
    mark, style = ("✗", "bold red") if step.failed else ("✓", "green")
    number = f"{step.number:>{len(str(step.total))}}/{step.total} " if step.number else ""
    took = "cached" if step.cached else format_seconds(step.seconds or 0.0)
    return _row(
        Text.assemble((f"{mark} ", style), (number, "bold")),
        Text(sanitize_line(step.instruction), "dim" if step.cached else ""),
        Text(took, "dim" if step.cached else ""),
    )


def _row(left: Text, middle: Text, right: Text) -> Table:
    """One line as wide as the terminal: text that does not fit loses its middle."""
    table = Table.grid(expand=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column(no_wrap=True, justify="right")
    right.pad_left(2)
    table.add_row(left, middle, right)
    return table
