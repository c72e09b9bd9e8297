"""The origin of a run: `origin.json` in its folder, to compare the run and to submit it again.

A run that an earlier version of rsctl has submitted, or a bench, has none.
"""

from __future__ import annotations

from typing import Optional

import msgspec

from rsctl.atomic_file import read_json, write_file
from rsctl.runs.home import run_directory

_FILE = "origin.json"


class Origin(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The origin of a run.

    `file` is the job file, `folder` the one to which its paths are relative. `commit` is the git
    commit of the source, with `-dirty` behind it if files differed from it. `content` has the
    files and packages of a run without an image, by name.
    """

    file: str = ""
    folder: str = ""
    commit: Optional[str] = None
    content: dict[str, str] = {}


def keep_origin(run: str, origin: Origin) -> None:
    """Write a run's origin. Raises RsctlError."""
    write_file(run_directory(run) / _FILE, msgspec.json.encode(origin))


def origin_of(run: str) -> Origin | None:
    """The origin of a run; None if it is not recorded, or cannot be read."""
    return read_json(run_directory(run) / _FILE, Origin)
