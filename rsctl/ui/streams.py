"""Server-sent events: the parts of a page that have changed, and the lines of a log.

The HTML standard defines the format, "Server-sent events": one JSON document an event.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from time import monotonic, perf_counter
from typing import Any

import msgspec

from rsctl.api import Bench, LogFilter, RsctlError, Run, Store
from rsctl.results.report.html import plain
from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.formatting import format_line
from rsctl.ui.keeper import Keeper
from rsctl.ui.lists import Query
from rsctl.ui.run_view import View, bench_view, compare_view, run_view
from rsctl.ui.shell import finding_texts

LINES = 600
"""Lines of a log that are sent first, and at most with one event; older ones are left out."""

LONGEST = 4000
"""Characters of one line that are sent."""

_LIST_SECONDS = 1.5
_VIEW_SECONDS = 1.0
_SHARE = 8  # the time between two views, times the time that one took
_LOG_SECONDS = 0.15
_ALIVE_SECONDS = 10.0

List = Callable[[Store, Query], str]
Stream = Generator[bytes, None, None]
"""Events for a browser; a reader that stops before their end must close it."""


def event(name: str, value: Any) -> bytes:
    """One event. JSON has no line break, which would end it."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(value))


def list_events(keeper: Keeper, make: List, query: Query) -> Stream:
    """The list whenever it has changed, until the keeper stops."""
    sent, alive = "", monotonic()
    while not keeper.stop.is_set():
        try:
            with closing(Store()) as store:
                text = str(make(store, query))
        except RsctlError as problem:
            yield event("problem", _why(problem))
        else:
            if text != sent or monotonic() > alive:
                alive = monotonic() + _ALIVE_SECONDS
                yield event("parts", {"parts": {"list": text} if text != sent else {}})
                sent = text
        keeper.stop.wait(_LIST_SECONDS)


class _Changes:
    """The parts and charts that a browser has received."""

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}
        self._plots: list[dict[str, Any]] = []

    def of(self, view: View) -> bytes:
        """The event that brings a browser up to date with a view."""
        parts = {n: text for n, text in view.parts.items() if self._parts.get(n, "") != text}
        known = dict(enumerate(self._plots))
        plots = {str(i): plot for i, plot in enumerate(view.plots) if known.get(i) != plot}
        self._parts, self._plots = view.parts, view.plots
        changed = {"parts": parts, "plots": plots, "state": view.state, "final": view.is_final}
        return event("parts", changed)


class _Clock:
    """When the next view is due: the longer one takes to make, the fewer are made."""

    def __init__(self, make: Callable[[Store], View]) -> None:
        self._make = make
        self._due = 0.0
        self.is_final = False
        self._changes = _Changes()

    def events(self) -> Iterator[bytes]:
        """The event that is due, if any."""
        if monotonic() >= self._due:
            yield self.now()

    def now(self) -> bytes:
        """An event at once."""
        began = perf_counter()
        try:
            with closing(Store()) as store:
                view = self._make(store)
            self.is_final = view.is_final
            return self._changes.of(view)
        except RsctlError as problem:
            return event("problem", _why(problem))
        finally:
            self._due = monotonic() + max(_VIEW_SECONDS, _SHARE * (perf_counter() - began))


def run_events(keeper: Keeper, run: Run, parameters: Mapping[str, str]) -> Stream:
    """The run's page and its log, until the run has ended."""

    def make(store: Store) -> View:
        run.reload()
        return run_view(store, run, keeper.outdated.get(run.id, ()))

    clock = _Clock(make)
    yield clock.now()
    try:
        for batch in _log(run, parameters):
            if keeper.stop.is_set():
                return
            if batch is not None:
                yield event("log", batch)
            yield from clock.events()
    except RsctlError as problem:
        yield event("problem", _why(problem))
    while not keeper.stop.is_set():  # the end is recorded after the last line
        if not clock.is_final:
            yield clock.now()
        if run.state.is_final:
            yield event("end", {})
            return
        keeper.stop.wait(_VIEW_SECONDS)


def _log(run: Run, parameters: Mapping[str, str]) -> Iterator[dict[str, Any] | None]:
    """The lines that are due, and how many were left out before them; None if there are none.

    The first lines tell whether the log has `earlier` ones.
    """
    chosen, is_shown = _filter(parameters)
    waiting: list[LogEvent] = []
    left, due, is_first = 0, 0.0, True
    for batch in run.log_batches(chosen, tail=LINES + 1, follow=True):
        if is_first and len(batch) > LINES:
            yield {"left": 0, "lines": [], "earlier": f"earlier lines: rsctl logs {run.id}"}
            batch = batch[1:]
        waiting += filter(is_shown, batch)
        left += max(0, len(waiting) - LINES)
        waiting = waiting[-LINES:]
        if is_first or (waiting and monotonic() > due):
            yield _lines(waiting, left)
            waiting, left, is_first = [], 0, False
            due = monotonic() + _LOG_SECONDS
        else:
            yield None
    if waiting:
        yield _lines(waiting, left)


def _filter(parameters: Mapping[str, str]) -> tuple[LogFilter, Callable[[LogEvent], bool]]:
    replica, text = parameters.get("replica", ""), parameters.get("text", "")[:200]
    has_errors = bool(parameters.get("errors"))

    def is_shown(line: LogEvent) -> bool:
        is_chosen = not has_errors or line.stream == "stderr"
        return is_chosen and format_line(line.text) is not None

    return LogFilter(
        replicas=(replica,) if replica else (),
        grep=f"(?i:{re.escape(text)})" if text else None,  # a text, so that none takes for ever
        tail_of=is_shown,
    ), is_shown


def _lines(lines: Sequence[LogEvent], left: int) -> dict[str, Any]:
    return {"left": left, "lines": [_line(line) for line in lines]}


def _line(line: LogEvent) -> tuple[str, str, int, str]:
    """A line as `rsctl logs` shows it: its time, its rank, whether it is an error, and its text."""
    where = plain(line.rank or line.replica, 80)
    text = plain(format_line(line.text) or "", LONGEST)
    return plain(line.time, 40)[11:19], where, int(line.stream == "stderr"), text


def bench_events(keeper: Keeper, bench: Bench) -> Stream:
    """The bench's page, until it has ended."""

    def make(store: Store) -> View:
        bench.reload()
        return bench_view(store, bench)

    return _views(keeper, make)


def compare_events(keeper: Keeper, names: Sequence[str]) -> Stream:
    """The comparison, until all have ended."""
    return _views(keeper, lambda store: compare_view(store, names))


def _views(keeper: Keeper, make: Callable[[Store], View]) -> Stream:
    clock = _Clock(make)
    while not keeper.stop.is_set():
        yield from clock.events()
        if clock.is_final:
            yield event("end", {})
            return
        keeper.stop.wait(_VIEW_SECONDS / 2)


def _why(problem: RsctlError) -> list[str]:
    return list(map(plain, finding_texts(problem.findings)))
