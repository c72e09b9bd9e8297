"""Views of a bench in progress: NDJSON, plain lines, or a live table."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from rsctl.api import (
    Bench,
    BenchObserver,
    BenchRecord,
    CellSummary,
    MetricFeed,
    NullObserver,
    RunRecord,
    Sample,
    Store,
    Trial,
    make_result,
)
from rsctl.cli.output import can_redraw
from rsctl.cli.views.bench_plain import PlainBenchView, show_build
from rsctl.findings import Finding, JobState
from rsctl.runs.stream.events import Event, FindingEvent, now
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.runs.stream.ndjson import event_line, json_of


class BenchView(BenchObserver, Protocol):
    """Shows a bench and its results."""

    def finish(self, bench: Bench, exit_code: int) -> None:
        """Show the results."""

    def close(self) -> None:
        """Restore standard output in all cases; may be called more than once."""


def make_bench_view(output: str, specs: Mapping[str, MetricSpec]) -> BenchView:
    """The view for `-o` and the types of standard output and standard error."""
    if output == "json":
        return JsonBenchView(specs)
    if can_redraw(sys.stdout, sys.stderr):
        from rsctl.cli.views.bench_live import LiveBenchView

        return LiveBenchView(specs)
    return PlainBenchView()


class JsonBenchView(NullObserver):
    """Prints one event per line, each with its `bench`, `cell` and `repetition`."""

    def __init__(self, specs: Mapping[str, MetricSpec]) -> None:
        self._specs = dict(specs)
        self._bench: BenchRecord | None = None
        self._store = Store()
        self._feeds: dict[str, MetricFeed] = {}

    def begin(self, bench: BenchRecord, todo: int, is_driven: bool) -> None:
        """Do nothing: this view prints nothing before the first event."""
        self._bench = bench

    building = staticmethod(show_build)

    def events(self, trial: Trial, events: list[Event]) -> None:
        """Print the events of a run, with its metrics."""
        self._write(trial, self._feed(trial).among(events))

    def ended(self, trial: Trial, run: RunRecord | None, samples: Mapping[str, Sample]) -> None:
        """Print the remaining metrics and the result of a run."""
        feed = self._feed(trial)
        self._feeds.pop(trial.run)
        exit_code = trial.exit_code if trial.exit_code is not None else 0
        result = make_result(trial.run, run, self._store.summary(trial.run), exit_code)
        self._write(trial, [*feed.rest(), result])

    def finding(self, finding: Finding) -> None:
        """Print a finding about the bench itself, which has no cell."""
        bench = self._bench.bench if self._bench else None
        _print_line(FindingEvent(time=now(), finding=finding), {"bench": bench})

    def finish(self, bench: Bench, exit_code: int) -> None:
        """Print the result of the bench, with its cells."""
        print_result(bench, bench.summary(), exit_code)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _feed(self, trial: Trial) -> MetricFeed:
        if trial.run not in self._feeds:
            self._feeds[trial.run] = MetricFeed(trial.run, self._specs, self._store)
        return self._feeds[trial.run]

    def _write(self, trial: Trial, events: list[Event]) -> None:
        bench = self._bench
        cell = bench.cells[trial.cell] if bench else {}
        about = {"bench": bench and bench.bench, "cell": cell, "repetition": trial.repetition}
        for event in events:
            _print_line(event, {**about, "run": trial.run})


def _print_line(event: Event, about: dict[str, Any]) -> None:
    """Return the event with more fields; fields of the event itself take precedence."""
    line = event_line(event).rstrip(b"\n")
    more = {
        k: v for k, v in about.items() if k != "run" or not line.startswith(b'{"type":"result"')
    }
    sys.stdout.buffer.write(line[:-1] + b"," + msgspec.json.encode(more)[1:] + b"\n")
    sys.stdout.buffer.flush()


def print_result(bench: Bench | None, cells: list[CellSummary], exit_code: int) -> None:
    """The last line of `bench run -o json`; without a bench if none was created."""
    state = bench.state if bench else JobState.FAILED
    result = {
        "type": "result",
        "time": now(),
        "bench": bench.id if bench else None,
        "state": state,
        "exit_code": exit_code,
        "cells": cells,
    }
    sys.stdout.buffer.write(json_of(result) + b"\n")
    sys.stdout.buffer.flush()
