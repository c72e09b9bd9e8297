"""The metrics of a run as they are stored, among the events of its folder.

Metrics are read from the log once, by the process that writes the store. Commands that follow a run
take them from the store, so that all commands show the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, nullcontext
from operator import attrgetter
from time import monotonic
from typing import Optional

from rsctl.runs.store import Store
from rsctl.runs.stream.events import Event, MetricEvent
from rsctl.runs.stream.headline import Tally
from rsctl.runs.stream.metrics import MetricSpec

_time = attrgetter("time")


_IDLE_SECONDS = 0.2


class MetricFeed:
    """The metrics of one run from the first on; `tally` has the statistics so far.

    With a store, use it in that store's thread. Without one it opens the store for each call, so
    that any thread may make the next call.
    """

    def __init__(
        self, run: str, specs: Mapping[str, MetricSpec], store: Optional[Store] = None
    ) -> None:
        self.tally = Tally(specs)
        self._run, self._store = run, store
        self._row = 0
        self._due = 0.0

    def among(self, events: Iterable[Event]) -> list[Event]:
        """Events in order of time, with the metrics stored since the last call.

        A metric follows the lines of its time. One that is stored later than its line was read
        stands in a later list.
        """
        result = list(events)
        if not result and monotonic() < self._due:
            return result
        self._due = monotonic() + _IDLE_SECONDS
        return self._with_new(result)

    def rest(self) -> list[Event]:
        """The metrics stored since the last call."""
        return self._with_new([])

    def _with_new(self, events: list[Event]) -> list[Event]:
        opened = nullcontext(self._store) if self._store else closing(Store())
        with opened as store:
            metrics = self._new(store)
        return sorted([*events, *metrics], key=_time) if metrics else events

    def _new(self, store: Store) -> list[MetricEvent]:
        events = []
        for row, metric in store.metrics(self._run, after=self._row):
            self._row = row
            self.tally.add(metric)
            events.append(metric)
        return events
