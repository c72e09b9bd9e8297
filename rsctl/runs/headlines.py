"""The headlines of a run's metrics, kept beside the metrics themselves.

They are folded from the rows of the store in the order of arrival, so that all readers see the
same. What has been folded is kept with the number of the last row: a reader takes only the
rows after it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Optional

import msgspec

from rsctl.runs.stream.events import MetricEvent
from rsctl.runs.stream.headline import Headline, Tally
from rsctl.runs.stream.metrics import MACHINES, MetricSpec

_specs = msgspec.json.Decoder(dict[str, MetricSpec])
_KEPT_BY_READERS = 5000
"""The number of rows after which a reader stores its result, for a run whose writer did not."""


class _Kept(msgspec.Struct, array_like=True):
    """Headlines by metric, up to a row number."""

    row: int = 0
    metrics: dict[str, Headline] = {}


_decoder = msgspec.msgpack.Decoder(_Kept)


class Headlines:
    """The headlines of the runs that one connection to the store writes."""

    def __init__(self) -> None:
        self._run: Optional[str] = None
        self._kept = _Kept()
        self._specs: Mapping[str, MetricSpec] = {}
        self._saved_row = 0

    def before(self, db: sqlite3.Connection, run: str) -> None:
        """Call it in the transaction that is about to add rows of a run."""
        if self._run != run or self._kept.row != _last_row(db, run):
            self._kept, _ = _folded(db, run)
            self._run, self._specs = run, _specs_of(db, run)
            self._saved_row = 0

    def add(self, db: sqlite3.Connection, metrics: Iterable[MetricEvent]) -> None:
        """Call it in the same transaction, when the rows are there.

        The more metrics there are, the fewer times they are kept.
        """
        assert self._run is not None  # noqa: S101 - for the type checker
        _fold(self._kept, self._specs, metrics)
        self._kept.row = _last_row(db, self._run)
        if self._kept.row - self._saved_row >= len(self._kept.metrics) // 100:
            _save(db, self._run, self._kept)
            self._saved_row = self._kept.row


def summary(db: sqlite3.Connection, run: str, may_write: bool) -> dict[str, dict[str, Any]]:
    """For each metric of a run its last value, count, best and unit, without metrics of
    machines.
    """
    kept, folded = _folded(db, run)
    if may_write and folded > _KEPT_BY_READERS:
        with suppress(sqlite3.Error):
            _save(db, run, kept)
    return Tally(_specs_of(db, run), 0, kept.metrics).summary()


def without_chief(db: sqlite3.Connection, run: str) -> list[str]:
    """The metrics that only replicas other than the chief have logged."""
    kept, _ = _folded(db, run)
    return [name for name, headline in kept.metrics.items() if not headline.is_chiefs]


def _folded(db: sqlite3.Connection, run: str) -> tuple[_Kept, int]:
    """The headlines as of the last row, and the number of rows that the stored ones omit."""
    kept = _read(db, run)
    if kept.row > _last_row(db, run):  # the row numbers have changed
        kept = _Kept()
    rows = db.execute(
        "SELECT rowid, time, replica, name, step, value FROM metrics"
        " WHERE run=? AND rowid>? ORDER BY rowid",
        (run, kept.row),
    )
    count = 0

    def events() -> Iterator[MetricEvent]:
        nonlocal count
        for row in rows:
            count += 1
            kept.row = row[0]
            with suppress(ValueError, TypeError):  # a damaged row
                yield _event(*row[1:])

    _fold(kept, _specs_of(db, run), events())
    return kept, count


def _event(time: str, replica: str, name: str, step: int | None, value: Any) -> MetricEvent:
    return MetricEvent(time=time, replica=replica, name=name, step=step, value=float(value))


def _fold(kept: _Kept, specs: Mapping[str, MetricSpec], metrics: Iterable[MetricEvent]) -> None:
    tally = Tally(specs, 0, kept.metrics)
    for metric in metrics:
        if not metric.name.startswith(MACHINES):
            tally.add(metric)


def _read(db: sqlite3.Connection, run: str) -> _Kept:
    row = db.execute("SELECT kept FROM headlines WHERE run=?", (run,)).fetchone()
    if row is None:
        return _Kept()
    try:
        return _decoder.decode(row[0])
    except (ValueError, RecursionError, TypeError):
        return _Kept()


def _save(db: sqlite3.Connection, run: str, kept: _Kept) -> None:
    db.execute(
        "INSERT INTO headlines (run, kept) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET kept=excluded.kept",
        (run, msgspec.msgpack.encode(kept)),
    )


def _last_row(db: sqlite3.Connection, run: str) -> int:
    row = db.execute("SELECT max(rowid) FROM metrics WHERE run=?", (run,)).fetchone()[0]
    return int(row or 0)


def _specs_of(db: sqlite3.Connection, run: str) -> Mapping[str, MetricSpec]:
    row = db.execute("SELECT metrics_spec FROM runs WHERE id=?", (run,)).fetchone()
    try:
        return _specs.decode(row[0]) if row else {}
    except (ValueError, RecursionError, TypeError):  # damaged: the log still has its values
        return {}
