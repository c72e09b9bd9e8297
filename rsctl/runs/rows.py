"""Reads the record of a run out of the database's rows."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec
from msgspec.structs import replace

from rsctl.runs.records import Fact, Replica, RunRecord, replica_order
from rsctl.stream.events import Attempt, Failure, TriedPlace
from rsctl.stream.metrics import MetricSpec

_COLUMNS = RunRecord.__struct_fields__[: RunRecord.__struct_fields__.index("first_failure")]
_MORE = "plan, metrics_spec, settings, spec, first_failure"
RUN_ROWS = f"SELECT id, {', '.join(_COLUMNS[1:])}, {_MORE} FROM runs "  # noqa: S608
"""Selects the rows of runs; a condition or an order follows."""


def run_of(row: tuple[Any, ...], db: sqlite3.Connection) -> RunRecord:
    """A run by its row, with what other tables have of it.

    Raises MsgspecError, ValueError or TypeError for what is damaged.
    """
    *fields, plan, specs, settings, spec, failure = row
    known = msgspec.convert(dict(zip(_COLUMNS, fields, strict=True)), RunRecord)
    return replace(
        known,
        plan=msgspec.json.decode(plan),
        metrics_spec=msgspec.json.decode(specs, type=dict[str, MetricSpec]),
        settings=msgspec.json.decode(settings, type=list[str]),
        spec=spec,
        first_failure=msgspec.json.decode(failure, type=Failure) if failure else None,
        attempts=_attempts(known.run, db),
        places=_places(known, db),
        replicas=_replicas(known.run, db),
        facts=_facts(known.run, db),
    )


def _facts(run: str, db: sqlite3.Connection) -> list[Fact]:
    rows = db.execute("SELECT facts FROM collected WHERE run=?", (run,))
    return [fact for (text,) in rows for fact in msgspec.json.decode(text, type=list[Fact])]


def _attempts(run: str, db: sqlite3.Connection) -> list[Attempt]:
    query = "SELECT attempt, ended, reason, failure FROM attempts WHERE run=? ORDER BY attempt"
    return [
        Attempt(
            attempt=number,
            ended=ended,
            reason=reason,
            failure=msgspec.json.decode(failure, type=Failure) if failure else None,
        )
        for number, ended, reason, failure in db.execute(query, (run,))
    ]


def _places(run: RunRecord, db: sqlite3.Connection) -> list[TriedPlace]:
    """The present one is in the state of the run itself."""
    names = TriedPlace.__struct_fields__
    query = f"SELECT {', '.join(names)} FROM places WHERE run=? ORDER BY number"  # noqa: S608
    rows = (dict(zip(names, row, strict=True)) for row in db.execute(query, (run.run,)))
    places = [msgspec.convert(row, TriedPlace) for row in rows]
    begun = sum(place.began is not None for place in places)
    if begun:
        url = None if run.url == f"{run.target}://{run.run}" else run.url
        present = {"state": run.state, "reason": run.reason, "ended": run.ended, "url": url}
        places[begun - 1] = replace(places[begun - 1], **present)
    return places


def _replicas(run: str, db: sqlite3.Connection) -> list[Replica]:
    query = "SELECT replica, state, since, exit_code, reason FROM replicas WHERE run=?"
    names = Replica.__struct_fields__
    rows = (dict(zip(names, row, strict=True)) for row in db.execute(query, (run,)))
    replicas = [msgspec.convert(row, Replica) for row in rows]
    return sorted(replicas, key=lambda r: replica_order(r.replica))
