"""Reads the record of a run out of the database's rows."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Any, Optional

import msgspec
from msgspec.structs import replace

from rsctl.runs.records import Fact, Replica, RunRecord, replica_order
from rsctl.runs.stream.events import TIME_LENGTH, Attempt, Failure, TriedPlacement
from rsctl.runs.stream.metrics import MetricSpec

_COLUMNS = RunRecord.__struct_fields__[: RunRecord.__struct_fields__.index("first_failure")]
_MORE = "plan, metrics_spec, settings, spec, first_failure"
RUN_ROWS = f"SELECT id, {', '.join(_COLUMNS[1:])}, {_MORE} FROM runs "  # noqa: S608
"""Selects the rows of runs; a condition or an order follows."""


def run_of(row: tuple[Any, ...], db: sqlite3.Connection) -> RunRecord:
    """A run from its row, with its data in other tables.

    Raises MsgspecError, ValueError or TypeError for damaged data.
    """
    *fields, plan, specs, settings, spec, failure = row
    record = msgspec.convert(dict(zip(_COLUMNS, fields, strict=True)), RunRecord)
    _require_times(record.created, record.started, record.ended)
    return replace(
        record,
        plan=msgspec.json.decode(plan, type=dict[str, Any]),
        metrics_spec=msgspec.json.decode(specs, type=dict[str, MetricSpec]),
        settings=msgspec.json.decode(settings, type=list[str]),
        spec=msgspec.convert(spec, Optional[str]),
        first_failure=msgspec.json.decode(failure, type=Failure) if failure else None,
        attempts=_attempts(record.run, db),
        placements=_placements(record, db),
        replicas=_replicas(record.run, db),
        facts=_facts(record.run, db),
    )


def _require_times(*times: str | None) -> None:
    """Raise ValueError for a text that is not an event's time."""
    for time in times:
        if time is None:
            continue
        if len(time) != TIME_LENGTH or time[-1] != "Z":
            raise ValueError(f"{time[:TIME_LENGTH]!r} is not a time")
        datetime.fromisoformat(time[:-1])


def _facts(run: str, db: sqlite3.Connection) -> list[Fact]:
    rows = db.execute("SELECT facts FROM collected WHERE run=?", (run,))
    return [fact for (text,) in rows for fact in msgspec.json.decode(text, type=list[Fact])]


def _attempts(run: str, db: sqlite3.Connection) -> list[Attempt]:
    query = "SELECT attempt, ended, reason, failure FROM attempts WHERE run=? ORDER BY attempt"
    attempts = [
        Attempt(
            attempt=msgspec.convert(number, int),
            ended=msgspec.convert(ended, str),
            reason=msgspec.convert(reason, Optional[str]),
            failure=msgspec.json.decode(failure, type=Failure) if failure else None,
        )
        for number, ended, reason, failure in db.execute(query, (run,))
    ]
    _require_times(*(attempt.ended for attempt in attempts))
    return attempts


def _placements(run: RunRecord, db: sqlite3.Connection) -> list[TriedPlacement]:
    """The present start is in the state of the run itself."""
    names = TriedPlacement.__struct_fields__
    query = f"SELECT {', '.join(names)} FROM places WHERE run=? ORDER BY number"  # noqa: S608
    rows = (dict(zip(names, row, strict=True)) for row in db.execute(query, (run.run,)))
    placements = [msgspec.convert(row, TriedPlacement) for row in rows]
    _require_times(
        *(time for placement in placements for time in (placement.began, placement.ended))
    )
    begun = sum(placement.began is not None for placement in placements)
    if begun:
        url = run.url if run.is_located else None
        present = {"state": run.state, "reason": run.reason, "ended": run.ended, "url": url}
        placements[begun - 1] = replace(placements[begun - 1], **present)
    return placements


def _replicas(run: str, db: sqlite3.Connection) -> list[Replica]:
    query = "SELECT replica, state, since, exit_code, reason FROM replicas WHERE run=?"
    names = Replica.__struct_fields__
    rows = (dict(zip(names, row, strict=True)) for row in db.execute(query, (run,)))
    replicas = [msgspec.convert(row, Replica) for row in rows]
    _require_times(*(replica.since for replica in replicas))
    return sorted(replicas, key=lambda r: replica_order(r.replica))
