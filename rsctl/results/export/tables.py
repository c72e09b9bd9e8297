"""Tables of runs: the runs, their samples, their metrics, the telemetry of their nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple, Optional

import msgspec

from rsctl.bench.records import BenchRecord, Cell
from rsctl.bench.samples import samples
from rsctl.results.export.arguments import arguments_of
from rsctl.results.export.columns import Column, Row, Value, cast, column_type
from rsctl.runs.cost import cost_of
from rsctl.runs.goodput import CAUSES
from rsctl.runs.goodput_records import goodput_of
from rsctl.runs.pools import pool_of_role
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import seconds_between
from rsctl.runs.stream.metrics import MACHINES

TableName = Literal["runs", "samples", "metrics", "telemetry"]
TABLES: tuple[TableName, ...] = ("runs", "samples", "metrics", "telemetry")

CELL = "cell."
"""The prefix of the columns of a matrix's values, before the key path."""

MOST_ARGUMENTS = 200
"""The maximum number of arguments with a separate column."""

_UNITS = (("_bytes", "B"), ("_percent", "%"), ("_seconds", "s"), ("_ms", "ms"))
_UNITS_WITHIN = {"gbit_per_second": "Gbit/s"}


class ExportSource(NamedTuple):
    """A run to export, with its part of a bench if it has one; both count from 0."""

    run: RunRecord
    bench: Optional[str] = None
    repetition: Optional[int] = None
    cell: Cell = {}


class Table:
    """A table whose rows are read from the store on demand."""

    def __init__(
        self, name: TableName, columns: list[Column], rows: Callable[[], Iterator[Row]]
    ) -> None:
        self.name, self.columns = name, columns
        self._rows = rows

    def rows(self) -> Iterator[Row]:
        """The rows, each with a value for each column."""
        return self._rows()


def sources_of(store: Store, found: RunRecord | BenchRecord) -> list[ExportSource]:
    """A run, or the runs of a bench that count, in the order of cells and repetitions."""
    if isinstance(found, RunRecord):
        return [ExportSource(found)]
    trials = found.latest().values()
    runs = [(trial, store.get(trial.run)) for trial in trials]
    return [
        ExportSource(run, found.bench, trial.repetition, found.cells[trial.cell])
        for trial, run in runs
        if run is not None
    ]


def make_table(name: TableName, store: Store, sources: Sequence[ExportSource]) -> Table:
    """One of the tables of these runs."""
    shared = _SharedColumns(sources)
    own, rows = _MAKERS[name]

    def all_rows() -> Iterator[Row]:
        for source in sources:
            head = shared.values(source)
            for row in rows(store, source.run):
                yield [*head, *row]

    return Table(name, [*shared.columns, *own], all_rows)


class _SharedColumns:
    """The common columns of every table: the run, its bench if any, its place in the bench, and its
    arguments.
    """

    def __init__(self, sources: Sequence[ExportSource]) -> None:
        self.columns = [Column("run", "text")]
        self._has_benches = any(source.bench for source in sources)
        if self._has_benches:
            self.columns += [Column("bench", "text"), Column("repetition", "integer")]
        keys = list(dict.fromkeys(key for source in sources for key in source.cell))
        self._cells = {key: column_type([s.cell.get(key) for s in sources]) for key in keys}
        self.columns += [Column(CELL + key, kind) for key, kind in self._cells.items()]
        self._found = {s.run.run: arguments_of(s.run, s.cell) for s in sources}
        names = list(dict.fromkeys(name for found in self._found.values() for name in found))
        self._arguments = {
            name: column_type([found.get(name) for found in self._found.values()])
            for name in names[:MOST_ARGUMENTS]
        }
        self.columns += [Column(name, kind) for name, kind in self._arguments.items()]

    def values(self, source: ExportSource) -> Row:
        bench: Row = [source.bench, source.repetition] if self._has_benches else []
        cells = [cast(source.cell.get(key), kind) for key, kind in self._cells.items()]
        found = self._found[source.run.run]
        arguments = [cast(found.get(name), kind) for name, kind in self._arguments.items()]
        return [source.run.run, *bench, *cells, *arguments]


_RUNS = [
    Column("name", "text"),
    Column("target", "text"),
    Column("url", "text"),
    Column("state", "text"),
    Column("exit_code", "integer"),
    Column("reason", "text"),
    Column("attempt", "integer"),
    Column("created", "time"),
    Column("started", "time"),
    Column("ended", "time"),
    Column("duration_s", "float", "s"),
    Column("cost_usd", "float", "USD"),
    Column("goodput", "float"),
    Column("paid_s", "float", "s"),
    *(Column(f"paid_{cause}_s", "float", "s") for cause in CAUSES),
    Column("workers", "integer"),
    Column("reducers", "integer"),
    Column("world_size", "integer"),
    Column("machine", "text"),
    Column("accelerator", "text"),
    Column("settings", "text"),
]
_SAMPLES = [
    Column("name", "text"),
    Column("value", "float"),
    Column("unit", "text"),
    Column("goal", "text"),
    Column("n", "integer"),
    Column("total", "integer"),
    Column("spread", "float"),
    Column("aggregate", "text"),
    Column("warmup", "text"),
    Column("reason", "text"),
    Column("state", "text"),
]
_METRICS = [
    Column("time", "time"),
    Column("replica", "text"),
    Column("name", "text"),
    Column("step", "integer"),
    Column("value", "float"),
    Column("unit", "text"),
]


def _run_rows(store: Store, run: RunRecord) -> Iterator[Row]:
    workers, reducers = (pool_of_role(run.plan, role) for role in ("worker", "reducer"))
    took = seconds_between(run.started, run.ended) if run.started and run.ended else None
    goodput = goodput_of(store, run)
    parts = {cause: part.seconds for cause, part in goodput.parts.items()}
    yield [
        *(run.name, run.target, run.url, run.state.value, run.exit_code, run.reason, run.attempt),
        *(run.created, run.started, run.ended, took, cost_of(run)[0]),
        *(goodput.share, goodput.seconds, *(parts.get(cause, 0.0) for cause in CAUSES)),
        *(workers.get("count"), reducers.get("count", 0), run.plan.get("world_size")),
        *(workers.get("machine"), workers.get("accelerator")),
        msgspec.json.encode(run.settings).decode(),
    ]


def _sample_rows(store: Store, run: RunRecord) -> Iterator[Row]:
    for name, sample in samples(store, run).items():
        fields: list[Value] = [sample.value, sample.unit, sample.goal, sample.n, sample.total]
        more: list[Value] = [sample.spread, sample.aggregate, sample.warmup, sample.reason]
        yield [name, *fields, *more, run.state.value]


def _metric_rows(of_machines: bool, store: Store, run: RunRecord) -> Iterator[Row]:
    units = {name: spec.unit for name, spec in run.metrics_spec.items()}
    for _, m in store.metrics(run.run):
        if m.name.startswith(MACHINES) == of_machines:
            unit = telemetry_unit(m.name) if of_machines else units.get(m.name)
            yield [m.time, m.replica, m.name, m.step, m.value, unit]


def telemetry_unit(name: str) -> str | None:
    """The unit of a node's measurement, by the end of its name; None for a mere number."""
    last = name.rpartition(".")[2]
    if last in _UNITS_WITHIN:
        return _UNITS_WITHIN[last]
    return next((unit for end, unit in _UNITS if last.endswith(end)), None)


_MAKERS: dict[TableName, tuple[list[Column], Callable[[Store, RunRecord], Iterator[Row]]]] = {
    "runs": (_RUNS, _run_rows),
    "samples": (_SAMPLES, _sample_rows),
    "metrics": (_METRICS, partial(_metric_rows, False)),
    "telemetry": (_METRICS, partial(_metric_rows, True)),
}
