"""The placements at which a run is tried, one after the other, and the submission to each.

A run with one placement has no rows here. For other runs the rows are written before anything is
sent. They hold all data for sending except the secrets, so that a later process can continue the
run. A run is at the last placement that has begun. A placement begins before its job is created,
in the transaction that ends the one before it. So the store knows, even after a kill, the only
placement where a job can be.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple, Optional, Union

import msgspec

from rsctl.findings import JobState
from rsctl.runs.store import Store
from rsctl.runs.stream.events import now

Path = tuple[Union[str, int], ...]


class PlannedPlacement(msgspec.Struct, kw_only=True, frozen=True):
    """The submission to a placement: its plan, as in `plan -o json`, and the image's reference.

    `placeholders` are the paths in the plan's request of values that are filled in when it is sent,
    each with the name of a secret, or None for the image.
    """

    region: Optional[str]
    machine: Optional[str]
    plan: dict[str, Any]
    image: Optional[str] = None
    placeholders: list[tuple[Path, Optional[str]]] = []

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.region, self.machine)))


class CurrentPlacement(NamedTuple):
    """The present placement of a run: its number from 0, its start, and whether it is the last."""

    number: int
    placement: PlannedPlacement
    began: str
    is_last: bool


class PlacementEnd(NamedTuple):
    """Why a run leaves a placement: the state and time in which its job there ended, if it had one.

    `dollars` is the cost of that job, None if unknown.
    """

    state: JobState
    reason: str
    time: str
    dollars: Optional[float] = None


def add_placements(store: Store, run: str, placements: Iterable[PlannedPlacement]) -> None:
    """Write a run's placements, of which the first begins; keep the ones that already exist."""
    with store.transaction() as db:
        for number, placement in enumerate(placements):
            db.execute(
                "INSERT OR IGNORE INTO places"
                " (run, number, region, machine, plan, image, placeholders, began)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(run, number, placement.region, placement.machine),
                    *(_json(placement.plan), placement.image, _json(placement.placeholders)),
                    None if number else now(),
                ),
            )


def current_placement(store: Store, run: str) -> CurrentPlacement | None:
    """The placement of a run now; None if the run has only one."""
    with store.snapshot() as db:
        return _present(db, run)


def first_request(store: Store, run: str) -> Any:
    """The request for a run's first placement; None if it has only one."""
    row = next(store.rows("SELECT plan FROM places WHERE run=? AND number=0", run), None)
    return msgspec.json.decode(row[0])["request"] if row else None


def go_on(
    store: Store, run: str, left: CurrentPlacement, end: PlacementEnd, progress: bytes, attempt: int
) -> CurrentPlacement | None:
    """The run leaves a placement, and the next one begins: from now on its plan is the run's.

    The collected log and metrics of the former job stay; `progress` is the starting point of the
    next job's collector, `attempt` the number of that job's first start. Returns None and changes
    nothing if there is no next placement, if the run is no longer at the placement, or if its
    cancellation was requested.
    """
    with store.transaction() as db:
        present = _present(db, run)
        if present is None or present.number != left.number or left.is_last or _is_ending(db, run):
            return None
        db.execute(
            "UPDATE places SET state=?, reason=?, ended=?, dollars=?,"
            " url=(SELECT CASE WHEN url=target || '://' || id THEN NULL ELSE url END"
            " FROM runs WHERE id=?) WHERE run=? AND number=?",
            (end.state.value, end.reason, end.time, end.dollars, run, run, left.number),
        )
        began = now()
        where = (run, left.number + 1)
        db.execute("UPDATE places SET began=? WHERE run=? AND number=?", (began, *where))
        db.execute(
            "UPDATE runs SET url=target || '://' || id, state=?, reason=?, attempt=?, started=NULL,"
            " plan=(SELECT plan FROM places WHERE run=? AND number=?) WHERE id=?",
            (JobState.QUEUED.value, None, attempt, *where, run),
        )
        db.execute("DELETE FROM replicas WHERE run=?", (run,))
        db.execute(
            "INSERT OR REPLACE INTO collected (run, progress, facts) VALUES (?, ?, '[]')",
            (run, progress.decode()),
        )
        return _present(db, run)


def request_cancel(store: Store, run: str) -> None:
    """Record that a run's cancellation was requested: it moves to no further placement."""
    store.write("UPDATE runs SET ending=COALESCE(ending, ?) WHERE id=?", now(), run)


def may_go_on(store: Store, run: str) -> bool:
    """Whether a run has a next placement and no request to cancel it."""
    with store.snapshot() as db:
        present = _present(db, run)
        return present is not None and not present.is_last and not _is_ending(db, run)


def is_cancel_requested(store: Store, run: str) -> bool:
    """Whether the run's cancellation was requested through rsctl."""
    return any(store.rows("SELECT 1 FROM runs WHERE id=? AND ending IS NOT NULL", run))


def is_ending(store: Store, run: str) -> bool:
    """Whether the run's cancellation was requested, or it has ended."""
    with store.snapshot() as db:
        return _is_ending(db, run)


def _present(db: sqlite3.Connection, run: str) -> CurrentPlacement | None:
    row = db.execute(
        "SELECT number, region, machine, plan, image, placeholders, began,"
        " (SELECT max(number) FROM places WHERE run=?1) FROM places"
        " WHERE run=?1 AND began IS NOT NULL ORDER BY number DESC LIMIT 1",
        (run,),
    ).fetchone()
    if row is None:
        return None
    number, region, machine, plan, image, placeholders, began, last = row
    placement = PlannedPlacement(
        region=region,
        machine=machine,
        plan=msgspec.json.decode(plan),
        image=image,
        placeholders=msgspec.json.decode(placeholders, type=list[tuple[Path, Optional[str]]]),
    )
    return CurrentPlacement(number, placement, began, number == last)


def _is_ending(db: sqlite3.Connection, run: str) -> bool:
    query = "SELECT ending IS NOT NULL OR ended IS NOT NULL FROM runs WHERE id=?"
    row = db.execute(query, (run,)).fetchone()
    return row is None or bool(row[0])


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
