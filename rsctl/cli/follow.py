"""Watching a run to its end, and what an interruption does."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any, Protocol

from rsctl.cli.interrupts import Cancel, Interrupts
from rsctl.cli.results import results_of
from rsctl.cli.show import print_message
from rsctl.findings import ExitCode, JobState
from rsctl.runs.final_state import with_final_state
from rsctl.runs.store import Run, Store
from rsctl.stream.events import Event, LogEvent, ResultEvent, now
from rsctl.stream.metrics import MetricReader, MetricSpec, Tally
from rsctl.targets.base import Target

OUTPUT_LOST = (errno.EPIPE, errno.EIO)
"""Errors of writing to a reader that has gone, and to a terminal that was closed."""


class View(Protocol):
    """Shows a run to whoever watches it."""

    def show(self, events: list[Event], tally: Tally) -> None:
        """Show a batch of events; an empty one when time has passed."""

    def finish(self, result: ResultEvent, run: Run) -> None:
        """Show how it ended."""

    def close(self) -> None:
        """Leave standard output as it was, whatever has happened; may be called again."""


def follow(
    target: Target,
    run: str,
    metrics: dict[str, MetricSpec],
    view: View,
    interrupts: Interrupts,
    cancel_on_interrupt: bool,
) -> int:
    """Show a run until it has ended; returns the exit code.

    An interruption, or the loss of standard output, detaches, or cancels the run and goes on to its
    end if `cancel_on_interrupt`. A further one only stops waiting for the end: this never returns
    before the target has answered the cancel. Raises RsctlError, also if the target refuses it.
    """
    tally, reader, cancel = Tally(metrics), MetricReader(metrics), Cancel(target, run)
    try:
        interrupts.follow(cancel.ask if cancel_on_interrupt else None)
        for events in target.events(run, {}, follow=True):
            cancel.check()
            view.show(with_metrics(events, reader, tally), tally)
    except KeyboardInterrupt:
        interrupts.hold()
        if cancel_on_interrupt:  # the two may have come at once
            cancel.ask()
            cancel.wait()
        return _detach(run, view, tally, cancel.is_asked)
    except OSError as problem:
        if problem.errno not in OUTPUT_LOST:
            raise
        interrupts.hold()
        abandon_stdout()
        if cancel_on_interrupt:
            cancel.ask()
            cancel.wait()
        print_message(_how_it_ends(run) if cancel_on_interrupt else _how_to_attach(run))
        return int(ExitCode.INTERRUPTED)
    finally:
        interrupts.hold()
        cancel.settle()
    return _finish(run, view, tally)


def with_metrics(events: list[Event], reader: MetricReader, tally: Tally) -> list[Event]:
    """The events, with those metrics that their log lines hold after each line.

    Metrics that cannot be read are findings of the run's supervisor or collector.
    """
    lines = [event for event in events if isinstance(event, LogEvent)]
    found = iter(reader.read_all(lines))
    result: list[Event] = []
    for event in events:
        result.append(event)
        if isinstance(event, LogEvent):
            for metric in next(found):
                tally.add(metric.name, metric.value)
                result.append(metric)
    return result


def abandon_stdout() -> None:
    """Nobody reads it any more; the interpreter's own flush at exit must not fail on it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _known(run: str) -> Run | None:
    found = Store().get(run)
    return found and with_final_state(found)


def _finish(run: str, view: View, tally: Tally) -> int:
    known = _known(run)
    ended = known is not None and known.state.is_final
    exit_code = int(known.state.exit_code if known and ended else ExitCode.JOB_FAILED)
    if known:
        view.finish(make_result(run, known, tally.summary(), exit_code), known)
    if not ended:
        print_message(f"{run} is gone, and how it ended was not written down")
    return exit_code


def make_result(
    run: str, known: Run | None, metrics: dict[str, Any], exit_code: int
) -> ResultEvent:
    """The last event of a run that was watched."""
    return ResultEvent(
        time=now(),
        run=run,
        state=known.state if known else JobState.FAILED,
        exit_code=exit_code,
        attempt=known.attempt if known else 1,
        attempts=known.attempts if known else [],
        first_failure=known.first_failure if known else None,
        metrics=metrics,
        url=known.url if known else None,
        results=results_of(known) if known else {},
    )


def _detach(run: str, view: View, tally: Tally, is_cancelled: bool = False) -> int:
    """Leave a run that goes on, is being cancelled, or has just ended."""
    known = _known(run)
    if known and known.state.is_final:
        return _finish(run, view, tally)
    result = make_result(run, known, tally.summary(), int(ExitCode.INTERRUPTED))
    if known:
        try:
            view.finish(result, known)
        except OSError as problem:  # of a terminal that was closed, which is why it is left
            if problem.errno not in OUTPUT_LOST:
                raise
            abandon_stdout()
    print_message(_how_it_ends(run) if is_cancelled else _how_to_attach(run))
    return result.exit_code


def _how_it_ends(run: str) -> str:
    return f"{run} is being cancelled. See its end: rsctl status --watch {run}"


def _how_to_attach(run: str) -> str:
    return (
        f"{run} goes on. Watch it again: rsctl logs -f {run}   "
        f"its state: rsctl status {run}   end it: rsctl cancel {run}"
    )
