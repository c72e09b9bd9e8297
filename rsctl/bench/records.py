"""Benches in the store: cells, repetitions, and the runs that were made of them."""

from __future__ import annotations

import os
import shlex
import sqlite3
from collections.abc import Collection, Iterable
from typing import Any, Optional

import msgspec

from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error
from rsctl.job.env_checks import typed_setting
from rsctl.runs.ids import new_run_id, packed_job
from rsctl.runs.store import Store
from rsctl.runs.stream.events import now

Cell = dict[str, Any]
"""The values of one cell of the matrix by key path, such as `{"workers.count": 2}`."""

_WORST = (
    ExitCode.JOB_FAILED,
    ExitCode.REFUSED,
    ExitCode.ENVIRONMENT,
    ExitCode.TIMED_OUT,
    ExitCode.CANCELLED,
)


def worst_exit_code(codes: Iterable[Optional[int]]) -> ExitCode | None:
    """The exit code of a failure that a bench ends with; None if no run has failed."""
    distinct = set(codes)
    return next((code for code in _WORST if int(code) in distinct), None)


class Trial(msgspec.Struct, kw_only=True):
    """One try at one repetition of one cell. `cell` is an index, all three count from 0.

    `exit_code` is None until it has ended. A repetition that failed may have further attempts; the
    last one counts.
    """

    cell: int
    repetition: int
    attempt: int = 0
    run: str
    state: JobState = JobState.QUEUED
    exit_code: Optional[int] = None
    reason: Optional[str] = None

    @property
    def slot(self) -> tuple[int, int]:
        """The repetition of the bench that it is a try at: cell and repetition."""
        return self.cell, self.repetition

    @property
    def key(self) -> tuple[int, int, int]:
        """Cell, repetition and attempt, which no other trial of the bench has."""
        return self.cell, self.repetition, self.attempt


SIDE = "side"
"""The key in the cells of a paired bench that says whose runs they are."""

BASELINE, CANDIDATE = "baseline", "candidate"


class Against(msgspec.Struct, kw_only=True):
    """The baseline of a paired bench: a `commit`, or another job file.

    `given` is what the user wrote, `file` the job file of the baseline that was read. `unpaired`
    are cells that one side alone has, which are not run.
    """

    given: str
    commit: Optional[str] = None
    file: str
    unpaired: list[Cell] = []

    @property
    def label(self) -> str:
        """Its name for people: `main (1a2b3c4d5e6f)`, or the path of a job file."""
        if self.commit is None or self.commit.startswith(self.given):
            return self.given
        return f"{self.given} ({self.commit[:12]})"


class BenchRecord(msgspec.Struct, kw_only=True):
    """One bench: each cell has `repeat` runs.

    `definition` is a digest of all that the runs have in common but their ids: benches of one
    definition measured the same thing. `spec` is the job file with the overrides of --set, its
    ${VAR} as written. `file`, `text`, `folder` and `settings` are what it was read from.
    `images` are references by digest, by the tag that the plans name. A bench that is `rehearsed`
    runs in an emulator of its cloud on this machine: its times say nothing of the cloud. A bench
    `against` something is paired: each cell is there twice, with a value of SIDE, the baseline's
    first. `content` are the files and packages that its runs use without an image: a digest or a
    version by name. `rehearsal` are the options of the command that rehearsed it. `commit` is the
    one that was checked out as it was last started, with `-dirty` behind it if files differed.
    """

    bench: str
    name: str
    target: str
    definition: str
    state: JobState = JobState.QUEUED
    created: str
    ended: Optional[str] = None
    repeat: int = 1
    cells: list[Cell]
    spec: dict[str, Any] = {}
    file: str = ""
    folder: str = ""
    text: str = ""
    settings: list[str] = []
    rehearsed: bool = False
    images: dict[str, str] = {}
    trials: list[Trial] = []
    against: Optional[Against] = None
    content: dict[str, str] = {}
    rehearsal: list[str] = []
    commit: Optional[str] = None

    def latest(self) -> dict[tuple[int, int], Trial]:
        """The attempt that counts of each repetition, by cell and repetition; in that order."""
        by_attempt = sorted(self.trials, key=lambda trial: trial.key)
        return {trial.slot: trial for trial in by_attempt}

    def runs_of(self, cell: int) -> list[str]:
        """The run of each repetition of a cell that succeeded, in their order.

        Only what succeeded has samples that mean anything.
        """
        mine = [trial for trial in self.latest().values() if trial.cell == cell]
        return [trial.run for trial in mine if trial.state is JobState.SUCCEEDED]

    @property
    def all_runs(self) -> set[str]:
        """The runs of all attempts, and the packed jobs that they were slots of."""
        runs = {trial.run for trial in self.trials}
        return runs | {job for run in runs if (job := packed_job(run)) is not None}

    @property
    def is_complete(self) -> bool:
        """Whether every repetition of every cell has succeeded."""
        done = [t for t in self.latest().values() if t.state is JobState.SUCCEEDED]
        counted = [t for t in done if t.repetition < self.repeat]
        return len(counted) == len(self.cells) * self.repeat

    @property
    def other_target(self) -> Optional[str]:
        """Its target, if that is not the job file's own."""
        return None if self.target == self.spec.get("target", "process") else self.target

    @property
    def set_options(self) -> list[str]:
        """Its overrides of the job file, as options of a command."""
        return [part for each in self.settings for part in ("--set", typed_setting(each))]

    def command(self, *more: str) -> str:
        """The command that runs its remaining cells, with more options."""
        words = ["rsctl", *(["gate"] if self.against else ["bench", "run"])]
        words += ["JOB" if self.file in ("", "-") else self.file]
        if self.against is not None:  # a branch may have moved on since
            words += ["--against", self.against.commit or self.against.file]
        words += ["-t", self.other_target] if self.other_target else []
        words += self.set_options
        words += ["--repeat", str(self.repeat)] if self.repeat > 1 else []
        words += self.rehearsal or (["--rehearse"] if self.rehearsed else [])
        return shlex.join([*words, *more])

    @property
    def exit_code(self) -> ExitCode:
        """The worst exit code of its runs; while runs are missing, the code of an interrupted
        bench.
        """
        worst = worst_exit_code(trial.exit_code for trial in self.latest().values())
        if worst is not None:
            return worst
        return ExitCode.SUCCEEDED if self.is_complete else ExitCode.INTERRUPTED


_ABOUT = (
    *("cells", "spec", "file", "folder", "text", "settings", "rehearsed", "against", "content"),
    *("rehearsal", "commit"),
)
_COLUMNS = ("name", "target", "definition", "state", "created", "ended", "repeat")


class Benches:
    """The benches of a store. All methods raise StoreError if it cannot be used."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def claim(
        self, bench: BenchRecord, new: bool = False, excluded: Collection[str] = ()
    ) -> BenchRecord:
        """The latest bench of the same definition, with room for as many repetitions.

        If there is none, or `new`, or if its ID is `excluded`, this one is added. Two who claim at
        once get the same one, which is `@last` from then on.
        """
        with self._store.transaction() as db:
            rows = db.execute(
                "SELECT id FROM benches WHERE definition=? ORDER BY created DESC, id LIMIT 1",
                (bench.definition,),
            ).fetchall()
            if not rows or new or rows[0][0] in excluded:
                _insert(db, bench)
                return bench
            db.execute(
                "UPDATE benches SET repeat=max(repeat, ?),"
                " about=json_set(about, '$.claimed', ?, '$.commit', ?) WHERE id=?",
                (bench.repeat, now(), bench.commit, *rows[0]),
            )
            return _load(db, "WHERE id=?", rows[0])[0]

    def get(self, bench: str) -> BenchRecord | None:
        """One bench by its id, or None."""
        return next(iter(self._benches("WHERE id=?", bench)), None)

    def succeeded(self, definition: str, repeat: int, excluded: Collection[str] = ()) -> int:
        """How many runs have succeeded of the first repetitions of the bench that `claim` would
        continue.
        """
        which = "WHERE definition=? ORDER BY created DESC, id LIMIT 1"
        found = [b.latest() for b in self._benches(which, definition) if b.bench not in excluded]
        trials = [trial for latest in found for trial in latest.values()]
        return sum(t.repetition < repeat and t.state is JobState.SUCCEEDED for t in trials)

    def of_definition(self, definition: str) -> list[str]:
        """The IDs of the benches that measure the same."""
        return [bench.bench for bench in self._benches("WHERE definition=?", definition)]

    def benches(self, limit: int = -1) -> list[BenchRecord]:
        """Benches, the newest first."""
        return self._benches("ORDER BY created DESC, id LIMIT ?", limit)

    def of_run(self, run: str) -> BenchRecord | None:
        """The bench that a run belongs to, or None."""
        slots = "substr(run, 1, length(?1) + 2) = ?1 || '-s'"
        which = f"WHERE id IN (SELECT bench FROM trials WHERE run=?1 OR {slots})"  # noqa: S608
        return next(iter(self._benches(which, run)), None)

    def by_run(self) -> dict[str, str]:
        """The id of the bench of each run that belongs to one."""
        return dict(self._store.rows("SELECT run, bench FROM trials"))

    def find(self, reference: str) -> BenchRecord:
        """A bench by id, unique prefix or `@last`, the bench that was started or continued last; a
        job file stands for its own last bench.

        Raises RsctlError if there is none.
        """
        order = "ORDER BY COALESCE(json_extract(about, '$.claimed'), created) DESC, id"
        if reference == "@last":
            matches = self._benches(f"{order} LIMIT ?", 1)
        else:
            matches = self._benches("WHERE id=?", reference)
        if not matches and os.path.isfile(reference):
            file = os.path.abspath(reference)
            matches = self._benches(f"WHERE json_extract(about, '$.file')=? {order} LIMIT 1", file)
        if not matches and reference:
            prefix = "WHERE substr(id, 1, length(?1)) = ?1 ORDER BY created DESC"
            matches = self._benches(prefix, reference)
        if len(matches) == 1:
            return matches[0]
        raise RsctlError(ExitCode.USAGE, _not_found(reference, matches))

    def begin(self, bench: str, trial: Trial) -> None:
        """Record that a trial is about to be submitted, under the id of its run."""
        with self._store.transaction() as db:
            db.execute(
                "INSERT INTO trials"
                " (bench, cell, repetition, attempt, run, state, exit_code, reason)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(bench, trial.cell, trial.repetition, trial.attempt, trial.run),
                    *(trial.state.value, trial.exit_code, trial.reason),
                ),
            )

    def drop(self, bench: str, trial: Trial) -> None:
        """Remove the record of a trial that has not run."""
        with self._store.transaction() as db:
            db.execute("DELETE FROM trials WHERE bench=? AND run=?", (bench, trial.run))

    def note(self, bench: str, trial: Trial) -> None:
        """Record how a trial is."""
        with self._store.transaction() as db:
            db.execute(
                "UPDATE trials SET state=?, exit_code=?, reason=?"
                " WHERE bench=? AND cell=? AND repetition=? AND attempt=?",
                (
                    *(trial.state.value, trial.exit_code, trial.reason),
                    *(bench, trial.cell, trial.repetition, trial.attempt),
                ),
            )

    def enter(self, bench: str, state: JobState, ended: str | None = None) -> None:
        """Record that a bench entered a state."""
        with self._store.transaction() as db:
            values = (state.value, ended, bench)
            db.execute("UPDATE benches SET state=?, ended=? WHERE id=?", values)

    def have_image(self, bench: str, tag: str, reference: str) -> None:
        """Record by which reference the image of a tag is submitted from now on."""
        with self._store.transaction() as db:
            (text,) = db.execute("SELECT images FROM benches WHERE id=?", (bench,)).fetchone()
            images = _json({**msgspec.json.decode(text), tag: reference})
            db.execute("UPDATE benches SET images=? WHERE id=?", (images, bench))

    def forget(self, bench: str) -> None:
        """Remove the record of a bench and its trials; their runs stay."""
        with self._store.transaction() as db:
            db.execute("DELETE FROM trials WHERE bench=?", (bench,))
            db.execute("DELETE FROM benches WHERE id=?", (bench,))

    def _benches(self, which: str, value: object) -> list[BenchRecord]:
        with self._store.snapshot() as db:
            return _load(db, which, (value,))


def new_bench_id(name: str) -> str:
    """A fresh id such as `quickstart-bench-7f3k2a`."""
    return new_run_id(f"{name}-bench")


def _insert(db: sqlite3.Connection, bench: BenchRecord) -> None:
    about = {name: getattr(bench, name) for name in _ABOUT}
    db.execute(
        f"INSERT INTO benches (id, {', '.join(_COLUMNS)}, about, images)"  # noqa: S608
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(bench.bench, bench.name, bench.target, bench.definition, bench.state.value),
            *(bench.created, bench.ended, bench.repeat, _json(about), _json(bench.images)),
        ),
    )


def _load(db: sqlite3.Connection, which: str, values: tuple[object, ...]) -> list[BenchRecord]:
    columns = f"id, {', '.join(_COLUMNS)}, about, images"
    rows = db.execute(f"SELECT {columns} FROM benches {which}", values).fetchall()  # noqa: S608
    return [_bench(db, row) for row in rows]


def _bench(db: sqlite3.Connection, row: tuple[Any, ...]) -> BenchRecord:
    bench, *fields, about, images = row
    columns = dict(zip(_COLUMNS, fields, strict=True))
    columns |= {**msgspec.json.decode(about), "images": msgspec.json.decode(images), "bench": bench}
    names = Trial.__struct_fields__
    trials = db.execute(
        f"SELECT {', '.join(names)} FROM trials WHERE bench=?"  # noqa: S608
        " ORDER BY cell, repetition, attempt",
        (bench,),
    )
    columns["trials"] = [dict(zip(names, trial, strict=True)) for trial in trials]
    return msgspec.convert(columns, BenchRecord)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _not_found(reference: str, matches: list[BenchRecord]) -> Finding:
    if matches:
        names = ", ".join(bench.bench for bench in matches[:4]) + (", ..." if matches[4:] else "")
        return error(
            "bench",
            f"{reference!r} matches several benches: {names}",
            "give more characters of the ID",
        )
    if reference == "@last":
        return error("bench", "there are no benches yet", "start one: rsctl bench run JOB")
    if os.path.isfile(reference):
        remedy = f"start one: rsctl bench run {shlex.quote(reference)}"
        return error("bench", f"{reference} has no bench yet", remedy)
    return error("bench", f"there is no bench {reference!r}", "see `rsctl bench list`")
