"""The store of runs: one SQLite database in WAL mode, safe for several processes at once.

It holds what a run is and what came of it, and the metrics. Log lines stay in the run's folder.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Optional

import msgspec

from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs.home import home
from rsctl.stream.events import Failure, MetricEvent, StateEvent
from rsctl.stream.metrics import MetricSpec

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, target TEXT NOT NULL, url TEXT NOT NULL,
    state TEXT NOT NULL, reason TEXT, exit_code INTEGER, attempt INTEGER NOT NULL DEFAULT 1,
    created TEXT NOT NULL, started TEXT, ended TEXT,
    plan TEXT NOT NULL, metrics_spec TEXT NOT NULL, first_failure TEXT);
CREATE TABLE IF NOT EXISTS replicas (
    run TEXT NOT NULL REFERENCES runs(id), replica TEXT NOT NULL, state TEXT NOT NULL,
    exit_code INTEGER, reason TEXT, since TEXT NOT NULL,
    PRIMARY KEY (run, replica)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS metrics (
    run TEXT NOT NULL REFERENCES runs(id), time TEXT NOT NULL, replica TEXT NOT NULL,
    name TEXT NOT NULL, step INTEGER, value REAL NOT NULL);
CREATE INDEX IF NOT EXISTS metrics_of_run ON metrics (run, name);
"""
_RUN_COLUMNS = (
    "id, name, target, url, state, reason, exit_code, attempt, created, started, ended,"
    " plan, metrics_spec, first_failure"
)


class Replica(msgspec.Struct, kw_only=True):
    """A replica's latest state and when it entered it."""

    replica: str
    state: JobState
    since: str
    exit_code: Optional[int] = None
    reason: Optional[str] = None


class Run(msgspec.Struct, kw_only=True):
    """One run as the store knows it. `plan` is what `rsctl plan -o json` printed for it."""

    run: str
    name: str
    target: str
    url: str
    state: JobState
    created: str
    reason: Optional[str] = None
    exit_code: Optional[int] = None
    attempt: int = 1
    started: Optional[str] = None
    ended: Optional[str] = None
    first_failure: Optional[Failure] = None
    replicas: list[Replica] = []
    plan: dict[str, Any] = {}
    metrics_spec: dict[str, MetricSpec] = {}


class Store:
    """Opens, and if need be creates, the database below RSCTL_HOME.

    Raises RsctlError (environment) if the folder cannot be written or the database is not ours.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or home() / "runs.db"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                self._db.executescript(_SCHEMA)
                self._db.execute(f"PRAGMA user_version={_SCHEMA_VERSION}")
        except (sqlite3.Error, OSError) as problem:
            raise _unusable(self.path, str(problem)) from None
        if version > _SCHEMA_VERSION:
            raise _unusable(self.path, "it was written by a newer rsctl")

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def add(self, run: Run) -> None:
        """Record a run before anything of it starts."""
        self._db.execute(
            "INSERT INTO runs (id, name, target, url, state, created, plan, metrics_spec)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(run.run, run.name, run.target, run.url, run.state.value, run.created),
                *(_json(run.plan), _json(run.metrics_spec)),
            ),
        )

    def record(self, run: str, event: StateEvent) -> None:
        """Record that a run or one of its replicas entered a state. A final state stays."""
        if event.replica is None:
            self._record_run(run, event)
        else:
            self._db.execute(
                "INSERT INTO replicas VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                " state=excluded.state, exit_code=excluded.exit_code, reason=excluded.reason,"
                " since=excluded.since",
                (run, event.replica, event.state.value, event.exit_code, event.reason, event.time),
            )

    def _record_run(self, run: str, event: StateEvent) -> None:
        started = event.time if event.state is JobState.RUNNING else None
        ended = event.time if event.state.is_final else None
        self._db.execute(
            "UPDATE runs SET state=?, reason=?, exit_code=?, attempt=?,"
            " started=COALESCE(started, ?), ended=? WHERE id=? AND ended IS NULL",
            (event.state.value, event.reason, event.exit_code, event.attempt, started, ended, run),
        )

    def record_failure(self, run: str, failure: Failure) -> None:
        """Record a run's first failure."""
        self._db.execute("UPDATE runs SET first_failure=? WHERE id=?", (_json(failure), run))

    def add_metrics(self, run: str, metrics: Iterable[MetricEvent]) -> None:
        """Record values of metrics, all or none."""
        rows = [(run, m.time, m.replica, m.name, m.step, _storable(m.value)) for m in metrics]
        with closing(self._db.cursor()) as cursor:
            cursor.execute("BEGIN")
            cursor.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
            cursor.execute("COMMIT")

    def metrics(self, run: str, after: int = 0) -> Iterator[tuple[int, MetricEvent]]:
        """A run's metrics in the order of their arrival, each with its row number."""
        rows = self._db.execute(
            "SELECT rowid, time, replica, name, step, value FROM metrics"
            " WHERE run=? AND rowid>? ORDER BY rowid",
            (run, after),
        )
        for row, time, replica, name, step, value in rows:
            yield (
                row,
                MetricEvent(time=time, replica=replica, name=name, step=step, value=float(value)),
            )

    def get(self, run: str) -> Run | None:
        """One run with its replicas, or None."""
        row = self._db.execute(f"SELECT {_RUN_COLUMNS} FROM runs WHERE id=?", (run,)).fetchone()  # noqa: S608
        return self._with_replicas(_run(row)) if row else None

    def runs(self, limit: int = -1) -> list[Run]:
        """Runs without their replicas, the newest first."""
        query = f"SELECT {_RUN_COLUMNS} FROM runs ORDER BY created DESC, id LIMIT ?"  # noqa: S608
        return [_run(row) for row in self._db.execute(query, (limit,))]

    def unfinished(self, target: str | None = None) -> list[Run]:
        """Runs that have not ended, as far as the store knows."""
        return [
            run for run in self.runs() if not run.state.is_final and target in (None, run.target)
        ]

    def find(self, reference: str) -> Run:
        """A run by id, unique prefix, `@last` or URL. Raises RsctlError if there is none."""
        runs = self.runs()
        if reference == "@last":
            matches = runs[:1]
        else:
            matches = [r for r in runs if reference in (r.run, r.url)]
            matches = matches or [r for r in runs if r.run.startswith(reference)]
        if len(matches) == 1:
            return self._with_replicas(matches[0])
        raise RsctlError(ExitCode.USAGE, _not_found(reference, matches))

    def _with_replicas(self, run: Run) -> Run:
        rows = self._db.execute(
            "SELECT replica, state, exit_code, reason, since FROM replicas WHERE run=?", (run.run,)
        )
        replicas = [
            Replica(replica=r, state=JobState(s), exit_code=c, reason=why, since=t)
            for r, s, c, why, t in rows
        ]
        run.replicas = sorted(replicas, key=lambda r: replica_order(r.replica))
        return run


def replica_order(replica: str) -> tuple[bool, str, int]:
    """Sort key: workers before reducers, each by number."""
    role, _, index = replica.rpartition("-")
    return role != "worker", role, int(index) if index.isdigit() else 0


def _run(row: tuple[Any, ...]) -> Run:
    keys = ("run", *_RUN_COLUMNS.replace(" ", "").split(",")[1:])
    values = dict(zip(keys, row, strict=True))
    values["state"] = JobState(values["state"])
    values["plan"] = msgspec.json.decode(values["plan"])
    specs = values.pop("metrics_spec")
    values["metrics_spec"] = msgspec.json.decode(specs, type=dict[str, MetricSpec])
    failure = values.pop("first_failure")
    return Run(
        **values, first_failure=msgspec.json.decode(failure, type=Failure) if failure else None
    )


def _storable(value: float) -> float | str:
    """SQLite turns a NaN into NULL; as text it comes back as it was."""
    return value if value == value else "nan"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _not_found(reference: str, matches: list[Run]) -> Any:
    if len(matches) > 1:
        names = ", ".join(run.run for run in matches[:4])
        return error("run", f"{reference!r} fits several runs: {names}", "give more of the id")
    if reference == "@last":
        return error("run", "there are no runs yet", "start one: rsctl submit JOB")
    return error("run", f"no run {reference!r}", "see `rsctl list`")


def _unusable(path: Path, why: str) -> RsctlError:
    return RsctlError(
        ExitCode.ENVIRONMENT,
        error("store", f"cannot use {path}: {why}", "set RSCTL_HOME to a folder of your own"),
    )
