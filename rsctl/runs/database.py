"""One SQLite file in WAL mode, readable on a full disk too; its errors become findings."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EPERM, EROFS
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from rsctl.findings import ExitCode, error
from rsctl.runs.disk_use import disk_use
from rsctl.runs.home import private_file, private_folder
from rsctl.runs.migrations import VERSION, migrate
from rsctl.runs.store_errors import DiskFull, StoreError, is_at_limit, is_full

BUSY_SECONDS = 30.0
_LEAST_SHRUNK = 1 << 20  # bytes
_PART_SHRUNK = 0.1
used: set[Path] = set()
"""The databases that this process, or the rsctl that started it, has opened: it continues to use
them after a newer version of rsctl has changed them.
"""


class Database:
    """Opens a database; creates it and its folder if they do not exist.

    It and all its methods raise StoreError (exit code 3) if the folder cannot be written, or the
    database is damaged, locked for long, or of another program. On a full disk any number of
    processes can still read it; methods that write raise DiskFull until there is space.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_read_only = False
        with self._explaining():
            private_folder(path.parent)
            private_file(path)
            try:
                self._db, version = self._open()
            except sqlite3.OperationalError as problem:
                if not is_full(problem, path):
                    raise
                self._db, version = self._open_on_full_disk()
        if version > VERSION and path not in used:
            self.close()
            raise self._unusable("a newer version of rsctl wrote it", "upgrade rsctl")
        used.add(path)

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def __del__(self) -> None:
        """Close a database that was left open: its connection refers to itself, so that it would
        keep its files open until a garbage collection.
        """
        with suppress(AttributeError, sqlite3.Error):
            self._db.close()

    def disk_use(self) -> int:
        """Bytes on disk, including the data that has not moved from its log into the file yet."""
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(disk_use(file) for file in files)

    def shrink(self) -> int:
        """Give the space of removed records back to the disk, if there is much of it.

        Returns the freed bytes. The database is locked for writers meanwhile. Row numbers do not
        change: SQLite keeps the row numbers of tables that have an index, and cursors point to
        them.
        """
        with self._explaining():
            db = self._writable()
            pages, free, size = (
                int(db.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("page_count", "freelist_count", "page_size")
            )
            if free * size < _LEAST_SHRUNK or free < pages * _PART_SHRUNK:
                return 0
            before = self.disk_use()
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return max(0, before - self.disk_use())

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run all or none of some statements, for packages that keep records here."""
        with self._explaining(), self._writable() as db:
            db.execute("BEGIN IMMEDIATE")
            yield db

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Run queries that see one state of the database, also on a full disk."""
        with self._explaining(), self._db as db:
            db.execute("BEGIN")
            yield db

    def _open(self, pragma: str = "") -> tuple[sqlite3.Connection, int]:
        """The database and its version."""
        db = sqlite3.connect(
            self.path,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,  # an iterator may move between threads, and end in any
        )
        try:
            for one in filter(None, (pragma, "journal_mode=WAL", "synchronous=NORMAL")):
                db.execute(f"PRAGMA {one}")
            return db, migrate(db)
        except BaseException:
            db.close()
            raise

    def _open_on_full_disk(self) -> tuple[sqlite3.Connection, int]:
        """The database, read-only.

        WAL mode needs a file of shared memory, which a full disk has no room for. An exclusive lock
        needs no shared memory, and moves the data that a killed process left in the log into the
        file. After that no process needs a lock, since no process can write.
        """
        db, version = self._open("locking_mode=EXCLUSIVE")
        db.close()
        self._is_read_only = True
        address = f"{self.path.absolute().as_uri()}?immutable=1"
        db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        return db, version

    def _writable(self) -> sqlite3.Connection:
        if self._is_read_only:  # there may be space by now
            db, _ = self._open()
            self._db.close()
            self._db, self._is_read_only = db, False
        return self._db

    def rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """The rows that a query finds, also on a full disk."""
        with self._explaining():
            count = 0
            try:
                for row in self._db.execute(query, values):
                    yield row
                    count += 1
            except sqlite3.OperationalError as problem:
                self._bear(problem)
                yield from islice(self._db.execute(query, values), count, None)

    def _bear(self, problem: sqlite3.OperationalError) -> None:
        """Read texts that are not UTF-8 from here on, with escapes; raise any other problem.

        Such texts are damage of single rows. Reading all texts this way takes several times as
        long.
        """
        if "decode to UTF-8" not in str(problem) or self._db.text_factory is not str:
            raise problem
        self._db.text_factory = lambda data: data.decode(errors="backslashreplace")

    def write(self, statement: str, *values: object) -> None:
        """Run one statement."""
        with self._explaining():
            self._writable().execute(statement, values)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn errors of the database into findings."""
        try:
            yield
        except UnicodeDecodeError:  # the text of SQLite's error has the damaged bytes
            why = "it is damaged"
            raise self._unusable(
                why, "restore it from a backup, move it to another place"
            ) from None
        except (sqlite3.Error, OSError, msgspec.MsgspecError) as problem:
            why = str(problem) or "it is damaged"  # as above, in Python 3.10
            if is_full(problem, self.path):
                raise self._full() from None
            raise self._unusable(why, self._remedy(problem)) from None

    def _remedy(self, problem: Exception) -> str:
        is_of_sqlite = isinstance(problem, sqlite3.OperationalError)
        if is_of_sqlite and "locked" in str(problem):
            return "end the process that holds the lock"
        is_read_only = isinstance(problem, OSError) and problem.errno in (EACCES, EPERM, EROFS)
        # SQLite says only that it cannot open a database whose files it cannot make.
        is_read_only = is_read_only or not os.access(self.path.parent, os.W_OK)
        if is_read_only or (is_of_sqlite and "readonly" in str(problem)):
            return f"let this user write to {self.path.parent}"
        return "move it to another place"

    def _full(self) -> StoreError:
        if is_at_limit(self.path):
            why = "one of its files has reached this process's limit of file sizes"
            return self._unusable(why, "raise the limit: ulimit -f unlimited", DiskFull)
        return self._unusable("its disk is full", "free disk space", DiskFull)

    def _unusable(self, why: str, remedy: str, kind: type[StoreError] = StoreError) -> StoreError:
        message = f"cannot use {self.path}: {why}"
        finding = error("store", message, f"{remedy}, or set RSCTL_HOME to another folder")
        return kind(ExitCode.ENVIRONMENT, finding)
