"""Lines below the printed text of a terminal that are drawn repeatedly."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.control import Control
from rich.live import Live
from rich.live_render import LiveRender
from rich.segment import Segment

from rsctl.cli.output import in_color

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def spinner(seconds: float) -> str:
    """The sign of progress at a time: ten a second."""
    return _SPINNER[int(seconds * 10) % len(_SPINNER)]


class StatusLines(Live):
    """Status lines of a terminal, which `stop` removes; `console` prints above them.

    The shell has a cursor after Ctrl-Z because they do not hide it, and `fg` draws them below what
    the shell has printed.
    """

    def __init__(self, stream: TextIO, **settings: Any) -> None:
        is_error, no_color = stream is sys.stderr, not in_color(stream)
        console = Console(
            stderr=is_error, highlight=False, markup=False, emoji=False, no_color=no_color
        )
        super().__init__(console=console, transient=True, **settings)
        self._live_render = self._lines = _Lines(console)

    def start(self, refresh: bool = False) -> None:
        """Begin, with no line."""
        if not self.is_started:
            super().start(refresh)
            self.console.show_cursor(True)
            self._before = signal.signal(signal.SIGCONT, lambda *_: self._lines.forget())

    def stop(self) -> None:
        """Remove the lines."""
        if self.is_started:
            signal.signal(signal.SIGCONT, self._before)
            self.update("")  # lines beyond the height of the terminal could not be removed
            super().stop()


class _Lines(LiveRender):
    """The lines and the width of each, since a terminal that becomes narrower wraps them.

    xterm, which sets XTERM_VERSION, cuts them off instead; tmux inside xterm wraps them.
    """

    def __init__(self, console: Console) -> None:
        super().__init__("")
        self._console = console
        self._is_cut = "XTERM_VERSION" in os.environ and "TMUX" not in os.environ
        self.forget()

    def forget(self) -> None:
        """Draw the next lines where the cursor is."""
        self._widths: list[int] = []

    def position_cursor(self) -> Control:
        """The control codes that remove the lines."""
        rows = sum(max(1, -(-width // self._console.width)) for width in self._widths)
        self._shape = (0, rows) if rows else None
        return super().position_cursor()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        segments = list(super().__rich_console__(console, options))
        lines = Segment.split_lines(part for part in segments if isinstance(part, Segment))
        self._widths = [
            0 if self._is_cut else sum(part.cell_length for part in line) for line in lines
        ]
        yield from segments
