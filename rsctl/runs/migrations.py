"""The tables of the store, as the ordered steps that made them.

A database's `user_version` is the number of steps it has been through. A change of the tables is
one more step at the end; a step that has been released is never edited. A step only adds tables
and columns, since processes of earlier versions that are at work continue to write.
"""

from __future__ import annotations

import sqlite3

STEPS = (
    """
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
    CREATE INDEX IF NOT EXISTS metrics_of_run ON metrics (run);
    """,
    """
    CREATE TABLE IF NOT EXISTS collected (
        run TEXT PRIMARY KEY REFERENCES runs(id), progress TEXT NOT NULL, facts TEXT NOT NULL
        ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE IF NOT EXISTS benches (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, target TEXT NOT NULL, definition TEXT NOT NULL,
        state TEXT NOT NULL, created TEXT NOT NULL, ended TEXT, repeat INTEGER NOT NULL,
        about TEXT NOT NULL, images TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS trials (
        bench TEXT NOT NULL REFERENCES benches(id), cell INTEGER NOT NULL,
        repetition INTEGER NOT NULL, attempt INTEGER NOT NULL, run TEXT NOT NULL,
        state TEXT NOT NULL, exit_code INTEGER, reason TEXT,
        PRIMARY KEY (bench, cell, repetition, attempt)) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS trials_of_run ON trials (run);
    """,
    """
    CREATE TABLE IF NOT EXISTS attempts (
        run TEXT NOT NULL REFERENCES runs(id), attempt INTEGER NOT NULL, ended TEXT NOT NULL,
        reason TEXT, failure TEXT, PRIMARY KEY (run, attempt)) WITHOUT ROWID;
    """,
    """
    ALTER TABLE runs ADD COLUMN settings TEXT NOT NULL DEFAULT '[]';
    """,
    """
    CREATE TABLE IF NOT EXISTS versions (
        run TEXT NOT NULL REFERENCES runs(id), replica TEXT NOT NULL, versions TEXT NOT NULL,
        PRIMARY KEY (run, replica)) WITHOUT ROWID;
    """,
    """
    CREATE TABLE IF NOT EXISTS step_times (
        run TEXT NOT NULL REFERENCES runs(id), part INTEGER NOT NULL, record TEXT NOT NULL,
        PRIMARY KEY (run, part)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS predictions (
        run TEXT PRIMARY KEY REFERENCES runs(id), prediction TEXT NOT NULL) WITHOUT ROWID;
    """,
    """
    ALTER TABLE runs ADD COLUMN spec TEXT;
    """,
    """
    CREATE TABLE IF NOT EXISTS places (
        run TEXT NOT NULL REFERENCES runs(id), number INTEGER NOT NULL, region TEXT, machine TEXT,
        plan TEXT NOT NULL, image TEXT, placeholders TEXT NOT NULL, state TEXT, reason TEXT,
        url TEXT, began TEXT, ended TEXT, dollars REAL, PRIMARY KEY (run, number)) WITHOUT ROWID;
    ALTER TABLE runs ADD COLUMN ending TEXT;
    """,
    """
    CREATE TABLE IF NOT EXISTS headlines (
        run TEXT PRIMARY KEY REFERENCES runs(id), kept BLOB NOT NULL) WITHOUT ROWID;
    """,
    """
    CREATE TABLE IF NOT EXISTS profiles (
        run TEXT NOT NULL REFERENCES runs(id), rank INTEGER NOT NULL, record TEXT NOT NULL,
        PRIMARY KEY (run, rank)) WITHOUT ROWID;
    """,
)
"""Statements that end with `;`, one text a version."""

VERSION = len(STEPS)
"""The version of the tables that this code reads and writes."""


def migrate(db: sqlite3.Connection) -> int:
    """Bring the tables up to `VERSION` in one transaction; returns the version that they have then.

    A newer database is left as it is. `db` must be in autocommit mode. Raises sqlite3.Error.
    """
    if _version(db) < VERSION:
        with db:
            db.execute("BEGIN IMMEDIATE")
            # Another process may have been faster, also one of a newer version.
            for version in range(_version(db), VERSION):
                for statement in STEPS[version].split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version={version + 1}")
    return _version(db)


def _version(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version
