"""The plain view of a bench in progress: a line per start and end, and a table at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rsctl.api import (
    Bench,
    BenchRecord,
    BuildEvent,
    NullObserver,
    OnProgress,
    RunRecord,
    Sample,
    Trial,
    format_cell,
)
from rsctl.cli.bench_common import print_table
from rsctl.cli.show import print_important, print_message, show_findings
from rsctl.cli.views.build import make_build_view
from rsctl.cli.views.run_text import failure_block, state_in_color
from rsctl.findings import ExitCode, Finding, JobState
from rsctl.runs.stream.events import Event, FindingEvent, seconds_between
from rsctl.runs.stream.formatting import format_duration, format_number

_MAX_METRICS = 4


@contextmanager
def show_build() -> Iterator[OnProgress]:
    """Shows a build in the same way as for a single job."""
    view: Any = None

    def show(event: BuildEvent) -> None:
        nonlocal view
        view = view or make_build_view()
        view.show(event)

    try:
        yield show
    finally:
        if view is not None:
            view.finish()


class PlainBenchView(NullObserver):
    """Prints a line on stderr for each start and end of a run, and finally the table on stdout."""

    def __init__(self) -> None:
        self._bench: BenchRecord | None = None
        self._number = 0
        self._todo = 0

    def begin(self, bench: BenchRecord, todo: int, is_driven: bool) -> None:
        """Show how many runs remain."""
        self._bench, self._todo = bench, todo
        for line in opening(bench, todo, is_driven):
            self.print_message(line)

    building = staticmethod(show_build)

    def submitted(self, trial: Trial) -> None:
        """Show that a run has started."""
        self.print_message(f"{self._position(trial)}  started    {trial.run}")

    def events(self, trial: Trial, events: list[Event]) -> None:
        """Show a finding; `rsctl logs RUN` shows logs."""
        for event in events:
            if isinstance(event, FindingEvent) and event.finding.severity != "note":
                show_findings([event.finding])

    def ended(self, trial: Trial, run: RunRecord | None, samples: Mapping[str, Sample]) -> None:
        """Show that a run has ended; for a failure, also its first failure."""
        self._number += 1
        write = self.print_message if trial.state is JobState.SUCCEEDED else self.print_important
        write(f"{self._position(trial)}  {format_ended(trial, run, samples)}")
        for line in failure_block(run) if run and run.first_failure else []:
            self.print_important(f"  {line}")

    def finding(self, finding: Finding) -> None:
        """Show a message about the bench."""
        show_findings([finding])

    def finish(self, bench: Bench, exit_code: int) -> None:
        """Print the table of all cells, and the command that prints it again."""
        print_table(bench, bench.summary())
        for line in closing(bench, exit_code):
            self.print_message(line)

    def close(self) -> None:
        """Do nothing: no resource is open."""

    def print_message(self, line: str) -> None:
        """Print a message; --quiet suppresses it."""
        print_message(line)

    def print_important(self, line: str) -> None:
        """Print a line that --quiet does not suppress."""
        print_important(line)

    def _position(self, trial: Trial) -> str:
        cell = format_cell(self._bench.cells[trial.cell]) if self._bench else ""
        return f"[{self._number}/{max(self._todo, self._number)}] {cell} #{trial.repetition + 1}"


def opening(bench: BenchRecord, todo: int, is_driven: bool) -> list[str]:
    """A bench's size, and how much of it remains to be run."""
    number = len(bench.cells) if bench.against is None else len(bench.cells) // 2
    cells = f"{number} cells" if number != 1 else "one job"
    plural = "s" if bench.repeat > 1 else ""
    pairs = f" pair{plural} with {bench.against.label}" if bench.against else ""
    total = len(bench.cells) * bench.repeat
    where = ", a rehearsal on this machine" if bench.rehearsed else ""
    count = f"{cells} x {bench.repeat}{pairs} = {total} runs"
    lines = [f"{bench.bench}: {count} on {bench.target}{where}"]
    if is_driven:
        lines.append(
            "another process runs this bench; this command watches it, and takes over if "
            "that process ends"
        )
    elif not todo:
        lines.append(
            "every run of this bench is complete; to measure again use --new, to add runs "
            "use --repeat"
        )
    elif todo < total:
        lines.append("1 of them remains" if todo == 1 else f"{todo} of them remain")
    return lines


def format_ended(trial: Trial, run: RunRecord | None, samples: Mapping[str, Sample]) -> str:
    """`succeeded after 12s  throughput 123 samples/s`."""
    took = ""
    if run and run.ended:
        took = f" after {format_duration(seconds_between(run.created, run.ended))}"
    why = f": {trial.reason}" if trial.reason and trial.state is not JobState.SUCCEEDED else ""
    declared = [(name, f) for name, f in samples.items() if not name.startswith("run.")]
    metrics = [
        f"{name} {format_number(f.value)}{f' {f.unit}' if f.unit else ''}"
        if f.value is not None
        else f"{name} no data ({f.reason})"
        for name, f in declared[:_MAX_METRICS]
    ]
    return "  ".join([f"{state_in_color(trial.state)}{took}{why}", *metrics])


def closing(bench: Bench, exit_code: int) -> list[str]:
    """The next commands to type."""
    if exit_code == ExitCode.INTERRUPTED:
        return [
            f"{bench.id} is not complete; runs in progress are not cancelled. Show it: rsctl bench "
            f"status {bench.id}   continue: {bench.record.command()}   cancel: rsctl bench cancel "
            f"{bench.id}"
        ]
    if exit_code == ExitCode.RESULT_UNKNOWN:
        return [f"follow these runs, and run the others: {bench.record.command()}"]
    if exit_code:
        return [f"run the missing and failed runs again: {bench.record.command()}"]
    return [f"show it again: rsctl bench status {bench.id}"]
