"""The metrics of a run: a selection of its values, from the first on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import sleep
from typing import TYPE_CHECKING

from rsctl.api.reconcile import awaited
from rsctl.runs.store import Store
from rsctl.runs.stream.events import MetricEvent
from rsctl.runs.stream.metrics import MACHINES
from rsctl.targets import get

if TYPE_CHECKING:
    from rsctl.api.run_handle import Run

_POLL_SECONDS = 0.3


def metric_events(
    run: Run, names: frozenset[str], nodes: bool, follow: bool, tail: int | None
) -> Iterator[MetricEvent]:
    """The values of these metrics, or of all; without names, values of nodes only if `nodes`.

    With `tail`, the last values so far and, with `follow`, those that come.
    """

    def first(store: Store) -> int:
        return 0 if tail is None else store.row_before(run.id, tail, names, nodes)

    for metric in _all_events(run, follow, first):
        is_of_machine = metric.name.startswith(MACHINES)
        if metric.name in names if names else nodes or not is_of_machine:
            yield metric


def _all_events(run: Run, follow: bool, after: Callable[[Store], int]) -> Iterator[MetricEvent]:
    target, store = get(run.record.target), Store()
    try:
        target.collect(run.id)
        seen = after(store)
        while True:
            for row, metric in store.metrics(run.id, after=seen):
                seen = row
                yield metric
            if run.state.is_final or not follow:
                return
            sleep(_POLL_SECONDS)
            run.record = awaited(run.record)
    finally:
        store.close()
        target.release(run.id)
