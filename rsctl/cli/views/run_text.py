"""Runs as text: events, states, metrics, failures, and how a run ended."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import IO, Any

import typer
from msgspec.structs import replace

from rsctl.api import Run, RunRecord
from rsctl.cli.output import in_color
from rsctl.cli.show import format_finding, remedy_line, styled
from rsctl.cli.views.cost import format_run_cost
from rsctl.cli.views.results import is_empty
from rsctl.findings import JobState
from rsctl.runs.stream.events import (
    Attempt,
    Event,
    Failure,
    FindingEvent,
    ResultEvent,
    StateEvent,
    TriedPlacement,
    now,
    seconds_between,
)
from rsctl.runs.stream.formatting import format_duration, format_number
from rsctl.runs.stream.sanitize import sanitize_line

_MAX_METRICS = 8
_MAX_VALUES = 3  # in one line
_LONGEST = 2000
_STATE_COLORS: dict[str, str] = {
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "red",
    JobState.EXPIRED: "red",
    JobState.CANCELLED: "yellow",
    JobState.CANCELLING: "yellow",
}


def format_event(event: Event) -> str | None:
    """The message for an event other than a log line, if there is one."""
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
    """A state, colored if stderr is."""
    return state_on(sys.stderr, state)


def state_on(stream: IO[str], state: JobState, width: int = 0) -> str:
    """A state for a stream, colored if the stream is, padded to a width."""
    return paint_state(stream, f"{state.value:<{width}}")


def paint_state(stream: IO[str], text: str) -> str:
    """A state's text, which may be padded, coloured if the stream is."""
    color = _STATE_COLORS.get(text.strip(), "cyan")
    return typer.style(text, fg=color, bold=True) if in_color(stream) else text


def summary_lines(result: ResultEvent, found: Run) -> list[str]:
    """The last lines about a run: its first failure if any, its state, its metrics."""
    run = found.record
    lines = failure_block(run) if run.first_failure else []
    if not run.state.is_final:
        return lines
    lines.append(final_state_line(run, result.time))
    placements = [placement for placement in run.placements if placement.began]
    lines += [
        f"  placement {n}: {format_placement(each)}" for n, each in enumerate(placements, start=1)
    ]
    lines += [f"  attempt {each.attempt}: {format_attempt(each)}" for each in run.attempts]
    for name, statistics in list(result.metrics.items())[:_MAX_METRICS]:
        lines.append(f"  {name} {format_metric(statistics)}")
    if (more := len(result.metrics) - _MAX_METRICS) > 0:
        lines.append(f"  and {more} more: rsctl metrics {run.run}")
    kept = [(name, at) for name, at in result.results.items() if not is_empty(at)]
    lines += [f"  {name}: {sanitize_line(at)}" for name, at in kept]
    if cost := found.cost():
        lines.append(f"  cost: {format_run_cost(cost, has_ended=True)[0]}")
    if run.plan.get("image", {}).get("transport") == "rsctl":
        travel = found.gradients()
        lines += [f"  gradients: {travel.format()}"] if travel else []
    return lines


def final_state_line(run: RunRecord, time: str) -> str:
    """How a run ended, by `time`: its state, after how long, and why unless a replica failed."""
    took = format_duration(seconds_between(run.created, run.ended or time))
    why = f": {run.reason}" if run.reason and not run.first_failure else ""
    return f"{run.run} {state_in_color(run.state)} after {took}{why}"


def format_attempt(attempt: Attempt) -> str:
    """The reason why an attempt ended and another followed."""
    failure = attempt.failure
    if failure is None:
        return sanitize_line(attempt.reason or "")
    causes = "".join(f"; {sanitize_line(cause.message)}" for cause in failure.causes[:1])
    return f"{sanitize_line(failure.headline)}{causes}"


def format_placement(placement: TriedPlacement) -> str:
    """The places where a run was or will be tried, with the result at each."""
    where = sanitize_line(str(placement))
    if placement.began is None:
        return f"{where}: not tried"
    state = placement.state.value if placement.state else "unknown"
    took = format_duration(seconds_between(placement.began, placement.ended or now()))
    why = f": {sanitize_line(placement.reason)}" if placement.reason else ""
    return f"{where}: {state} {'after' if placement.ended else 'for'} {took}{why}"


def format_metric(statistics: dict[str, Any]) -> str:
    """`0.97 (best 0.98)`, with the unit."""
    unit = f" {statistics['unit']}" if "unit" in statistics else ""
    last, best = statistics["last"], statistics.get("best")
    text = format_number(last) + unit
    return text if best in (None, last) else f"{text} (best {format_number(best)})"


def format_values(run: RunRecord, values: Mapping[str, float]) -> list[str]:
    """The first of the last values of a run's metrics, declared metrics first, as `loss=0.5`."""
    named = [name for name in run.metrics_spec if name in values]
    named += [name for name in values if name not in run.metrics_spec]
    metrics = [f"{name}={format_number(values[name])}" for name in named[:_MAX_VALUES]]
    return [*metrics, *[f"and {len(named) - _MAX_VALUES} more"] * (len(named) > _MAX_VALUES)]


def failure_block(run: RunRecord) -> list[str]:
    """The first failure: the replica, the failure and its time; its last lines; known causes; the
    later failures.
    """
    failure = run.first_failure
    if failure is None:
        return []
    lines = [_failure_headline(failure, run)]
    lines += [f"  {_shortened(sanitize_line(line))}" for line in failure.lines]
    for cause in failure.causes:
        lines.append(f"{styled('cause', fg='yellow', bold=True)}: {sanitize_line(cause.message)}")
        if cause.remedy:
            lines.append(remedy_line(sanitize_line(cause.remedy)))
    if victims := run.victims_text:
        lines.append(f"as a result, these failed: {victims}")
    return lines


def _shortened(line: str) -> str:
    """A line of a terminal; a log has lines of 256 KiB, such as an image in base64."""
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} … ({len(line):,} characters)"


def _failure_headline(failure: Failure, run: RunRecord) -> str:
    what, colon, how = sanitize_line(failure.headline).partition(":")
    when = sanitize_line(failure.when(run.started or run.created))
    return f"{styled(what, fg='red', bold=True)}{colon}{how}{when}"
