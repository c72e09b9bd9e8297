"""Views of a run that is followed: NDJSON, plain lines, or live in a terminal."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import IO, Any

import typer
from msgspec.structs import replace

from rsctl.cli.follow import View
from rsctl.cli.output import in_color
from rsctl.cli.results import is_empty
from rsctl.cli.show import (
    format_finding,
    print_events,
    print_important,
    print_message,
    remedy_line,
    styled,
)
from rsctl.findings import ExitCode, JobState
from rsctl.runs.gradients import gradients_of
from rsctl.runs.store import Run, Store
from rsctl.stream.events import (
    Attempt,
    Event,
    Failure,
    FindingEvent,
    LogEvent,
    ResultEvent,
    StateEvent,
    seconds_between,
)
from rsctl.stream.formatting import LineFormat, format_duration, format_number
from rsctl.stream.metrics import Tally
from rsctl.stream.sanitize import sanitize_line

_MAX_METRICS = 8
_STATE_COLORS = {
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "red",
    JobState.EXPIRED: "red",
    JobState.CANCELLED: "yellow",
    JobState.CANCELLING: "yellow",
}


def make_view(output: str, run: str, replicas: list[str]) -> View:
    """The view for `-o` and for what standard output and standard error are."""
    if output == "json":
        return JsonView()
    if sys.stdout.isatty() and sys.stderr.isatty():
        from rsctl.cli.live import LiveView

        return LiveView(run, replicas)
    return PlainView(sys.stdout, replicas)


class JsonView:
    """One event a line."""

    def show(self, events: list[Event], _tally: Tally) -> None:
        """Write the events."""
        if events:
            print_events(events)

    def finish(self, result: ResultEvent, _run: Run) -> None:
        """Write the result."""
        print_events([result])

    def close(self) -> None:
        """Nothing is open."""


class PlainView:
    """Log lines on stdout; states, findings and the end on stderr."""

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
        """Say how it ended; --quiet does not leave out why it failed."""
        write = print_message if result.exit_code == ExitCode.SUCCEEDED else print_important
        for line in summary_lines(result, run):
            write(line)

    def close(self) -> None:
        """Nothing is open."""

    def _write(self, lines: list[LogEvent]) -> None:
        if lines:
            self._out.write(self._format.lines(lines))
            self._out.flush()


def format_event(event: Event) -> str | None:
    """The message for an event that is no log line, if there is one."""
    if isinstance(event, FindingEvent):
        remedy = event.finding.remedy
        who = f"{sanitize_line(event.replica)}: " if event.replica else ""
        message = sanitize_line(event.finding.message)
        text = who + format_finding(replace(event.finding, message=message))
        return text + (f"\n{remedy_line(sanitize_line(remedy))}" if remedy else "")
    if not isinstance(event, StateEvent):
        return None
    if event.replica is None and not event.state.is_final:
        return f"{state_in_color(event.state)}" + (
            f": {sanitize_line(event.reason)}" if event.reason else ""
        )
    if event.replica and event.state is JobState.FAILED:
        why = f", {sanitize_line(event.reason)}" if event.reason else ""
        return f"{event.replica} {state_in_color(event.state)} (exit code {event.exit_code}{why})"
    return None


def state_in_color(state: JobState) -> str:
    """A state, coloured if stderr is."""
    return state_on(sys.stderr, state)


def state_on(stream: IO[str], state: JobState, width: int = 0) -> str:
    """A state for a stream, coloured if the stream is, padded to a width."""
    text = f"{state.value:<{width}}"
    return (
        typer.style(text, fg=_STATE_COLORS.get(state, "cyan"), bold=True)
        if in_color(stream)
        else text
    )


def summary_lines(result: ResultEvent, run: Run) -> list[str]:
    """The last lines about a run: its first failure if there is one, its state, its metrics."""
    lines = failure_block(run) if run.first_failure else []
    if not run.state.is_final:
        return lines
    took = f" after {format_duration(seconds_between(run.created, run.ended or result.time))}"
    why = f": {run.reason}" if run.reason and not run.first_failure else ""
    lines.append(f"{run.run} {state_in_color(run.state)}{took}{why}")
    lines += [f"  attempt {each.attempt}: {format_attempt(each)}" for each in run.attempts]
    for name, figures in list(result.metrics.items())[:_MAX_METRICS]:
        lines.append(f"  {name} {format_metric(figures)}")
    kept = [(name, at) for name, at in result.results.items() if not is_empty(at)]
    lines += [f"  {name}: {sanitize_line(at)}" for name, at in kept]
    if run.plan.get("image", {}).get("transport") == "rsctl":
        travel = gradients_of(Store(), run)
        lines += [f"  gradients: {travel.format()}"] if travel else []
    return lines


def format_attempt(attempt: Attempt) -> str:
    """Why an attempt ended that was followed by another one."""
    failure = attempt.failure
    if failure is None:
        return sanitize_line(attempt.reason or "")
    rank = f" (rank {failure.rank})" if failure.rank is not None else ""
    causes = "".join(f"; {sanitize_line(cause.message)}" for cause in failure.causes[:1])
    return f"{failure.replica}{rank} failed first: {_how(failure)}{causes}"


def format_metric(figures: dict[str, Any]) -> str:
    """`0.97 (best 0.98)`, with the unit."""
    unit = f" {figures['unit']}" if "unit" in figures else ""
    last, best = figures["last"], figures.get("best")
    text = format_number(last) + unit
    return text if best in (None, last) else f"{text} (best {format_number(best)})"


def failure_block(run: Run) -> list[str]:
    """The first failure: who, how and when; its last lines; known causes; who followed."""
    failure = run.first_failure
    if failure is None:
        return []
    lines = [_failure_headline(failure, run)]
    lines += [f"  {sanitize_line(line)}" for line in failure.lines]
    for cause in failure.causes:
        lines.append(f"{styled('cause', fg='yellow', bold=True)}: {sanitize_line(cause.message)}")
        if cause.remedy:
            lines.append(remedy_line(sanitize_line(cause.remedy)))
    others = [r for r in run.replicas if r.replica != failure.replica and r.exit_code]
    if others:
        names = ", ".join(replica.replica for replica in others)
        lines.append(f"in its wake: {names}")
    return lines


def _failure_headline(failure: Failure, run: Run) -> str:
    rank = f" (rank {failure.rank})" if failure.rank is not None else ""
    when = sanitize_line(failure.time[11:19])
    after = ""
    with suppress(ValueError):  # the time is as the runtime has reported it
        seconds = seconds_between(run.started or run.created, failure.time)
        after = f", {seconds:.1f} s after the start"
    who = styled(f"{failure.replica}{rank} failed first", fg="red", bold=True)
    return f"{who}: {_how(failure)} at {when} UTC{after}"


def _how(failure: Failure) -> str:
    if failure.signal:
        return f"killed by {sanitize_line(failure.signal)}"
    return f"exit code {failure.exit_code}"
