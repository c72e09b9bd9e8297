"""Hashes of a source's large files, kept between plans, so that gigabytes are read once.

A file is the same if its device, number, size and both times are. A file that was changed within
the last seconds is read again, since a further change may not change its times. An image never gets
a file by a stored hash alone: a build computes the hashes again.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from rsctl.atomic_file import UNREADABLE, write_file
from rsctl.findings import RsctlError
from rsctl.runs.home import home, private_folder

LARGE = 1 << 22
"""Bytes from which on a file's hash is kept."""

_FILE = "content-hashes.json"
_LARGEST = 1 << 24
_MOST = 20_000
_SETTLED_NANOSECONDS = 3 * 10**9

Kept = dict[str, tuple[str, str]]
_kept: dict[Path, Kept] = {}
_changed: set[Path] = set()


def kept_hash(path: Path, facts: os.stat_result) -> str | None:
    """The hash that a large file had when it was last read, if nothing says that it changed."""
    identity, hashed = _load().get(os.path.abspath(path), ("", ""))
    return hashed if hashed and identity == _identity(facts) else None


def keep_hash(path: Path, facts: os.stat_result, hashed: str) -> None:
    """Keep the hash of a large file, whose facts are from before it was read."""
    latest = max(facts.st_mtime_ns, facts.st_ctime_ns)
    if 0 <= time.time_ns() - latest < _SETTLED_NANOSECONDS:
        return
    name = os.path.abspath(path)
    with suppress(UnicodeEncodeError):
        name.encode()  # or it could not be written down
        kept = _load()
        kept.pop(name, None)
        kept[name] = (_identity(facts), hashed)
        _changed.add(_path())


def save_hashes() -> None:
    """Save new hashes. A folder that cannot be written only makes the next plan slower."""
    path = _path()
    if path not in _changed:
        return
    _changed.discard(path)
    kept = _load()
    newest = dict(list(kept.items())[-_MOST:])
    with suppress(OSError, RsctlError):
        private_folder(path.parent)
        write_file(path, msgspec.json.encode(newest))


def _path() -> Path:
    return home() / _FILE


def _load() -> Kept:
    path = _path()
    if path not in _kept:
        _kept[path] = {}
        with suppress(*UNREADABLE):
            if path.is_file() and path.stat().st_size <= _LARGEST:
                _kept[path] = msgspec.json.decode(path.read_bytes(), type=Kept)
    return _kept[path]


def _identity(facts: os.stat_result) -> str:
    times = f"{facts.st_mtime_ns}-{facts.st_ctime_ns}"
    return f"{facts.st_dev}-{facts.st_ino}-{facts.st_size}-{times}"
