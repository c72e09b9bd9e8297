"""The store of runs: one SQLite database, safe for several processes at the same time.

It holds the definitions and results of runs, and their metrics. Log lines stay in the run's folder.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rsctl.findings import ExitCode, Finding, JobState, RsctlError
from rsctl.runs import headlines
from rsctl.runs.database import Database
from rsctl.runs.home import home
from rsctl.runs.records import Fact as Fact
from rsctl.runs.records import Replica as Replica
from rsctl.runs.records import RunRecord as RunRecord
from rsctl.runs.records import RunSummary
from rsctl.runs.rows import RUN_ROWS, run_of
from rsctl.runs.store_errors import StoreError as StoreError
from rsctl.runs.store_errors import bench_given, damaged, not_found
from rsctl.runs.stream.events import Attempt, Failure, MetricEvent, StateEvent
from rsctl.runs.stream.headline import is_chief
from rsctl.runs.stream.metrics import MACHINES

_TABLES_OF_RUNS = (
    *("attempts", "metrics", "replicas", "collected"),
    *("versions", "step_times", "predictions", "places", "headlines", "profiles"),
)


_CHOSEN = (
    "WHERE name GLOB COALESCE(?, '*') AND created >= COALESCE(?, '') AND target=COALESCE(?, target)"
)


def store_file() -> Path:
    """The file of the store of RSCTL_HOME."""
    return home() / "runs.db"


class Store(Database):
    """The runs in the database below RSCTL_HOME, which is made if it does not exist.

    All methods raise the errors of `Database`. `damaged` are the runs found that cannot be read,
    with the reason; lists omit them.
    """

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(path or store_file())
        self.damaged: dict[str, str] = {}
        self._headlines = headlines.Headlines()

    def add(self, run: RunRecord) -> None:
        """Record a run before anything of it starts."""
        self.write(
            "INSERT INTO runs"
            " (id, name, target, url, state, created, plan, metrics_spec, settings, spec)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(run.run, run.name, run.target, run.url, run.state.value, run.created),
            *(_json(run.plan), _json(run.metrics_spec), _json(run.settings), run.spec),
        )

    def record(self, run: str, event: StateEvent) -> None:
        """Record that a run or one of its replicas entered a state.

        A final state does not change; recorded again, it may get another reason. Only a failure can
        become an expired time limit, because a cloud may report that later.
        """
        if event.replica is None:
            self._record_run(run, event)
        else:
            self.write(
                "INSERT INTO replicas (run, replica, state, exit_code, reason, since)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                " state=excluded.state, exit_code=excluded.exit_code, reason=excluded.reason,"
                " since=excluded.since",
                *(run, event.replica, event.state.value, event.exit_code),
                *(event.reason, event.time),
            )

    def _record_run(self, run: str, event: StateEvent) -> None:
        started = event.time if event.state is JobState.RUNNING else None
        ended = event.time if event.state.is_final else None
        earlier = JobState.FAILED if event.state is JobState.EXPIRED else event.state
        self.write(
            "UPDATE runs SET state=?, reason=?, exit_code=?, attempt=?,"
            " started=COALESCE(started, ?), ended=COALESCE(ended, ?)"
            " WHERE id=? AND (ended IS NULL OR state IN (?, ?))",
            *(event.state.value, event.reason, event.exit_code, event.attempt),
            *(started, ended, run, event.state.value, earlier.value),
        )

    def locate(self, run: str, url: str) -> None:
        """Record under which URL the target knows a run."""
        self.write("UPDATE runs SET url=? WHERE id=?", url, run)

    def progress(self, run: str) -> bytes | None:
        """The stored progress of collecting a run's log; None if nothing is stored."""
        rows = self.rows("SELECT progress FROM collected WHERE run=?", run)
        return next((text.encode() for (text,) in rows), None)

    def keep(
        self, run: str, metrics: Iterable[MetricEvent], progress: bytes, facts: list[Fact]
    ) -> None:
        """Record values of metrics and how far they have been collected, both or neither."""
        with self.transaction() as db:
            self._add_metrics(db, run, metrics)
            db.execute(
                "INSERT INTO collected (run, progress, facts) VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET"
                " progress=excluded.progress, facts=excluded.facts",
                (run, progress.decode(), _json(facts)),
            )

    def record_failure(self, run: str, failure: Failure) -> None:
        """Record a run's first failure."""
        self.write("UPDATE runs SET first_failure=? WHERE id=?", _json(failure), run)

    def record_attempt(self, run: str, attempt: Attempt) -> None:
        """Record a start of the job that another one followed; of several the last counts."""
        self.write(
            "INSERT OR REPLACE INTO attempts (run, attempt, ended, reason, failure)"
            " VALUES (?, ?, ?, ?, ?)",
            *(run, attempt.attempt, attempt.ended, attempt.reason),
            _json(attempt.failure) if attempt.failure else None,
        )

    def add_metrics(self, run: str, metrics: Iterable[MetricEvent]) -> None:
        """Record values of metrics, all or none."""
        with self.transaction() as db:
            self._add_metrics(db, run, metrics)

    def _add_metrics(
        self, db: sqlite3.Connection, run: str, metrics: Iterable[MetricEvent]
    ) -> None:
        added = list(metrics)
        if not added:
            return
        self._headlines.before(db, run)
        rows = [(run, m.time, m.replica, m.name, m.step, _storable(m.value)) for m in added]
        columns = "run, time, replica, name, step, value"
        db.executemany(f"INSERT INTO metrics ({columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)  # noqa: S608
        self._headlines.add(db, added)

    def metrics(self, run: str, after: int = 0) -> Iterator[tuple[int, MetricEvent]]:
        """A run's metrics in the order of their arrival, each with its row number."""
        rows = self.rows(
            "SELECT rowid, time, replica, name, step, value FROM metrics"
            " WHERE run=? AND rowid>? ORDER BY rowid",
            *(run, after),
        )
        for row, time, replica, name, step, value in rows:
            number = _number(value)
            if number is not None and (step is None or isinstance(step, int)):
                yield (
                    row,
                    MetricEvent(time=time, replica=replica, name=name, step=step, value=number),
                )

    def row_before(self, run: str, tail: int, names: Collection[str], nodes: bool) -> int:
        """The row number after which a run's metrics are the last `tail` values of these metrics,
        or of all; without names, values of nodes count only if `nodes`.
        """
        values: tuple[object, ...] = (run, tail)
        chosen = " AND ".join(f"substr(name, 1, {len(p)})<>'{p}'" for p in MACHINES if not nodes)
        if names:
            chosen, values = "name IN (SELECT value FROM json_each(?3))", (*values, _json([*names]))
        query = f"SELECT rowid FROM metrics WHERE run=?1 AND {chosen or 1}"  # noqa: S608
        rows = self.rows(f"{query} ORDER BY rowid DESC LIMIT 1 OFFSET ?2", *values)
        return next((row for (row,) in rows), 0)

    def values(self, run: str, *globs: str, newest_first: bool = False) -> Iterator[MetricEvent]:
        """The values of the metrics whose names match one of these globs, as they arrived."""
        order = "DESC" if newest_first else "ASC"
        chosen = " OR ".join("name GLOB ?" for _ in globs)
        columns = "time, replica, name, value"
        query = f"SELECT {columns} FROM metrics WHERE run=? AND ({chosen}) ORDER BY rowid {order}"  # noqa: S608
        for time, replica, name, stored in self.rows(query, run, *globs):
            if (value := _number(stored)) is not None:
                yield MetricEvent(time=time, replica=replica, name=name, value=value)

    def steps(self, run: str) -> list[tuple[str, int]]:
        """The times and numbers of the steps of one series, by time: the metric and the replica,
        if possible the chief, that have logged most steps.
        """
        own = "run=? AND typeof(step)='integer' AND substr(name, 1, 5)<>'node.'"
        query = f"SELECT count(*), name, replica FROM metrics WHERE {own} GROUP BY name, replica"  # noqa: S608
        series = [(is_chief(replica), *row, replica) for *row, replica in self.rows(query, run)]
        if not series:
            return []
        _, _, name, replica = max(series)
        query = f"SELECT time, step FROM metrics WHERE {own} AND name=? AND replica=? ORDER BY time"  # noqa: S608
        return list(self.rows(query, run, name, replica))

    def disk_uses(self, run: str | None = None) -> dict[str, int]:
        """By run, the approximate bytes of its metrics in the database; or for one run alone."""
        size = "length(time) + length(replica) + length(name) + 2 * length(run) + 36"
        where = "WHERE run=?" if run is not None else ""
        rows = self.rows(
            f"SELECT run, sum({size}) FROM metrics {where} GROUP BY run",  # noqa: S608
            *([run] if run is not None else []),
        )
        return {name: int(size) for name, size in rows}

    def latest(self, run: str, prefix: str) -> dict[str, dict[str, float]]:
        """By replica, the last value of each metric whose name begins with `prefix`, by the rest of
        the name.
        """
        rows = self.rows(
            "SELECT replica, name, value FROM metrics WHERE rowid IN (SELECT max(rowid)"
            " FROM metrics WHERE run=? AND substr(name, 1, ?)=? GROUP BY replica, name)",
            *(run, len(prefix), prefix),
        )
        values: dict[str, dict[str, float]] = {}
        for replica, name, value in rows:
            if (number := _number(value)) is not None:
                values.setdefault(replica, {})[name[len(prefix) :]] = number
        return values

    def summary(self, run: str) -> dict[str, dict[str, Any]]:
        """For each metric of a run its last value, count, best and unit, without metrics of
        machines.

        See `rsctl.runs.stream.headline` for metrics that several replicas log.
        """
        with self._explaining():
            return headlines.summary(self._db, run, may_write=not self._is_read_only)

    def without_chief(self, run: str) -> list[str]:
        """The metrics that only replicas other than the chief have logged."""
        with self._explaining():
            return headlines.without_chief(self._db, run)

    def last_values(self, run: str) -> dict[str, float]:
        """The last value of each metric of a run, without metrics of machines."""
        return {name: statistics["last"] for name, statistics in sorted(self.summary(run).items())}

    def get(self, run: str) -> RunRecord | None:
        """One run with its replicas, or None. Raises StoreError if it is damaged."""
        records = self._runs("WHERE id=?", run)
        if not records and run in self.damaged:
            raise StoreError(ExitCode.ENVIRONMENT, damaged(run, self.damaged[run], "error"))
        return next(iter(records), None)

    def runs(
        self,
        limit: int = -1,
        *,
        name: str | None = None,
        since: str | None = None,
        target: str | None = None,
    ) -> list[RunRecord]:
        """Runs, the last recorded first: those whose name matches a glob, created since a time, of
        a target.
        """
        return self._runs(f"{_CHOSEN} ORDER BY rowid DESC LIMIT ?", name, since, target, limit)

    def newest_ids(
        self, *, name: str | None = None, since: str | None = None, target: str | None = None
    ) -> list[str]:
        """The ids of `runs`, without reading the runs."""
        return self._ids(f"{_CHOSEN} ORDER BY rowid DESC", name, since, target)

    def runs_of(self, ids: Collection[str]) -> list[RunRecord]:
        """The runs with these ids, the last recorded first."""
        chosen = "WHERE id IN (SELECT value FROM json_each(?)) ORDER BY rowid DESC"
        return self._runs(chosen, _json([*ids]))

    def index(self) -> list[RunSummary]:
        """All runs in short, the last recorded first, in a few milliseconds for a thousand.

        Omits damaged rows.
        """
        columns = ", ".join(("id", *RunSummary._fields[1:]))
        rows = self.rows(f"SELECT {columns} FROM runs ORDER BY rowid DESC")  # noqa: S608
        found = []
        for row in rows:
            try:
                found.append(msgspec.convert(row, RunSummary))
            except msgspec.ValidationError as problem:
                self.damaged[str(row[0])] = str(problem)
        return found

    def unfinished(self, target: str | None = None, since: str | None = None) -> list[RunRecord]:
        """Runs without an end in the store, or with one after a time, the oldest first."""
        chosen = "WHERE (ended IS NULL OR ended > ?) AND target=COALESCE(?, target) ORDER BY rowid"
        return self._runs(chosen, since, target)

    def find(self, reference: str) -> RunRecord:
        """A run by id, unique prefix, `@last` or URL. Raises RsctlError if there is none."""
        run = self.identify(reference)
        record = self.get(run)
        if record is None:  # it was removed in between
            raise RsctlError(ExitCode.USAGE, not_found(run, []))
        return record

    def identify(self, reference: str) -> str:
        """The id of a run by id, unique prefix, `@last` or URL, even if the run cannot be read.

        `@last` is the run that was recorded last. Raises RsctlError if there is none.
        """
        if reference == "@last":
            matches = self._ids("ORDER BY rowid DESC LIMIT 1")
        else:
            matches = self._ids("WHERE ? IN (id, url) ORDER BY rowid DESC", reference)
        if not matches and reference:
            prefix = "WHERE substr(id, 1, length(?1)) = ?1 ORDER BY rowid DESC"
            matches = self._ids(prefix, reference)
        if len(matches) == 1:
            return matches[0]
        if any(self.rows("SELECT 1 FROM benches WHERE id=?", reference)):
            raise RsctlError(ExitCode.USAGE, bench_given(reference))
        raise RsctlError(ExitCode.USAGE, not_found(reference, matches))

    def ids(self) -> set[str]:
        """The ids of all runs, even of those that cannot be read."""
        return set(self._ids())

    def forget(self, run: str) -> None:
        """Remove all data about a run."""
        with self.transaction() as db:
            for table in _TABLES_OF_RUNS:
                db.execute(f"DELETE FROM {table} WHERE run=?", (run,))  # noqa: S608
            db.execute("DELETE FROM runs WHERE id=?", (run,))

    def damage(self) -> list[Finding]:
        """A warning for each run found that cannot be read."""
        return [damaged(run, why, "warning") for run, why in self.damaged.items()]

    def _ids(self, which: str = "", *values: object) -> list[str]:
        return [str(run) for (run,) in self.rows(f"SELECT id FROM runs {which}", *values)]  # noqa: S608

    def _runs(self, which: str, *values: object) -> list[RunRecord]:
        with self._explaining():
            try:
                return self._readable(which, *values)
            except sqlite3.OperationalError as problem:
                self._bear(problem)
                return self._readable(which, *values)

    def _readable(self, which: str, *values: object) -> list[RunRecord]:
        runs = []
        for row in self._db.execute(RUN_ROWS + which, values).fetchall():
            try:
                runs.append(run_of(row, self._db))
            except (msgspec.MsgspecError, ValueError, TypeError) as problem:
                self.damaged[str(row[0])] = str(problem)
        return runs


def _number(value: object) -> float | None:
    """A value as it was stored; None for a damaged value."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _storable(value: float) -> float | str:
    """SQLite turns a NaN into NULL; as text it comes back as it was."""
    return value if value == value else "nan"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
