"""Views of an image build on standard error: plain lines, or live."""

from __future__ import annotations

import sys
from typing import Protocol

from rsctl.api import BuildEvent, BuildOutput, BuildStep
from rsctl.cli.output import can_redraw, is_quiet
from rsctl.cli.show import print_important, print_message, styled
from rsctl.cli.views.build_text import format_build_finding, format_seconds, is_notable
from rsctl.findings import Finding

_MAX_INSTRUCTION = 160  # characters


class BuildView(Protocol):
    """Shows the events of a build; nothing else may write to standard error at the same time."""

    def show(self, event: BuildEvent) -> None:
        """Show an event."""
        ...

    def finish(self) -> None:
        """End the view, successful or not; may be called more than once."""
        ...


def make_build_view() -> BuildView:
    """The view for the type of standard error; with --quiet it shows only errors."""
    if is_quiet():
        return QuietBuildView()
    if can_redraw(sys.stderr):
        from rsctl.cli.views.build_live import LiveBuildView

        return LiveBuildView()
    return PlainBuildView()


class QuietBuildView:
    """The view for --quiet."""

    def show(self, event: BuildEvent) -> None:
        """Show errors."""
        if isinstance(event, Finding) and event.is_error:
            print_important(format_build_finding(event))

    def finish(self) -> None:
        """Do nothing: this view leaves nothing to clear."""


class PlainBuildView:
    """Prints lines that each name their step, for a log in which steps may overlap.

    Names other activity of the builder after it has taken a while.
    """

    def __init__(self) -> None:
        self._total = 0

    def show(self, event: BuildEvent) -> None:
        """Write the event."""
        if isinstance(event, Finding):
            print_message(format_build_finding(event))
        elif isinstance(event, BuildOutput):
            print_message(f"{self._label(event.step)}   {event.line}")
        else:
            self._total = event.total or self._total
            if text := _format_step(event):
                print_message(f"{self._label(event.number)} {text}")

    def finish(self) -> None:
        """Do nothing: this view leaves nothing to clear."""

    def _label(self, number: int) -> str:
        """The prefix `build 3/10 |`."""
        return f"build {number}/{self._total} |" if number else "build |"


def _format_step(step: BuildStep) -> str | None:
    """The line of a step; None if it gets none."""
    text = step.instruction
    if len(text) > _MAX_INSTRUCTION:
        text = text[: _MAX_INSTRUCTION - 1] + "…"
    if step.seconds is None:
        return text if step.number else None
    if step.cached:
        return f"{text} (cached)"
    if not is_notable(step):
        return None
    took = format_seconds(step.seconds)
    if step.failed:
        how = styled(f"failed after {took}", fg="red")
        return how if step.number else f"{text} {how}"
    return f"done in {took}" if step.number else f"{text} (done in {took})"
