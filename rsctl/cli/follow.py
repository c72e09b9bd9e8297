"""Watches a run until it ends, and handles interruptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rsctl.api import EventBatches, ResultUnknown, Run
from rsctl.cli.interrupts import BackgroundCancel, Interrupts
from rsctl.cli.output import OUTPUT_LOST, abandon_stdout, abandon_unread, without_reader
from rsctl.cli.show import print_message, show_findings
from rsctl.findings import ExitCode
from rsctl.runs.stream.events import Event, LogEvent, ResultEvent
from rsctl.runs.stream.headline import Tally


class View(Protocol):
    """Shows a run to the user."""

    def show(self, events: list[Event], tally: Tally) -> None:
        """Show a batch of events; empty if only time has passed."""

    def finish(self, result: ResultEvent, run: Run) -> None:
        """Show how the run ended."""

    def close(self) -> None:
        """Restore standard output in all cases; may be called more than once."""


def follow(
    run: Run,
    view: View,
    interrupts: Interrupts,
    cancel_on_interrupt: bool,
    tail: int | None = None,
    tail_of: Callable[[LogEvent], bool] | None = None,
) -> int:
    """Show a run until it has ended; returns the exit code.

    `tail` leaves out the log before each replica's last lines; see `Run.event_batches`.

    An interruption, or the loss of standard output, detaches; if `cancel_on_interrupt`, it cancels
    the run and watches it until it ends. Another interruption only stops the wait for the end: this
    function never returns before the target has answered the cancellation. Raises RsctlError, also
    if the target refuses it.
    """
    batches, cancel = run.event_batches(tail, tail_of), BackgroundCancel(run)
    try:
        interrupts.follow(cancel.ask if cancel_on_interrupt else None)
        for events in batches:
            cancel.check()
            view.show(events, batches.tally)
    except KeyboardInterrupt:
        interrupts.hold()
        abandon_unread(1, 2)
        if cancel_on_interrupt:  # the two may have come at once
            cancel.ask()
            cancel.wait()
        return _detach(run, view, batches, cancel.is_asked)
    except OSError as problem:
        if problem.errno not in OUTPUT_LOST:
            raise
        interrupts.hold()
        abandon_stdout()
        if cancel_on_interrupt:
            cancel.ask()
            cancel.wait()
            print_message(_how_it_ends(run.id))
        else:
            show_findings(ResultUnknown(run.reload()).findings)
        return int(ExitCode.INTERRUPTED)
    finally:
        interrupts.hold()
        cancel.wait_unless_ended()
    return _finish(run, view, batches)


def _finish(run: Run, view: View, batches: EventBatches) -> int:
    result = batches.result()
    with without_reader():
        view.finish(result, run)
    if not result.state.is_final:
        print_message(f"{run.id} no longer exists, and its result was not recorded")
    return result.exit_code


def _detach(run: Run, view: View, batches: EventBatches, is_cancelled: bool) -> int:
    """Stop watching a run that is running, being cancelled, or has just ended."""
    if run.reload().state.is_final:
        return _finish(run, view, batches)
    result = batches.result(int(ExitCode.INTERRUPTED))
    with without_reader():  # a terminal that was closed may be the reason
        view.finish(result, run)
    print_message(_how_it_ends(run.id) if is_cancelled else _how_to_attach(run.id))
    return result.exit_code


def _how_it_ends(run: str) -> str:
    return f"{run} is being cancelled. Watch it end: rsctl watch {run}"


def _how_to_attach(run: str) -> str:
    return (
        f"{run} continues to run\n  watch it again: rsctl watch {run}\n"
        f"  show its state: rsctl status {run}\n  cancel it: rsctl cancel {run}"
    )
