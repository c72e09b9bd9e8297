"""Finds files that a script has written where they are lost when its container ends."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from rsctl.node.structured_lines import warning

_MAX_ENTRIES = 20_000
"""Entries of folders that are read at most: the check must not hold up the end of a job."""

_MAX_NAMED = 3
_CACHES = ("__pycache__", ".pytest_cache", ".cache", ".git")
_KEPT = ("RSCTL_OUTPUT_DIR", "RSCTL_CHECKPOINT_DIR")


def lost_files_finding(
    folder: str, since: float, environ: Mapping[str, str]
) -> dict[str, object] | None:
    """A warning of files below `folder` that were written after `since`, in seconds since 1970.

    None if there are none, caches and the run's own folders left out.
    """
    names = sorted(os.path.relpath(path, folder) for path in _written(folder, since, environ))
    if not names:
        return None
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    shown = f"{', '.join(names[:_MAX_NAMED])}{more}"
    remedy = "write to RSCTL_OUTPUT_DIR, for which `{outputs}` in run.args is a placeholder"
    return warning("files-lost", f"files in {folder} are lost with the container: {shown}", remedy)


def _written(folder: str, since: float, environ: Mapping[str, str]) -> Iterator[str]:
    kept = {os.path.realpath(environ[name]) for name in _KEPT if environ.get(name)}
    seen = 0
    for parent, folders, files in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if name not in _CACHES and os.path.realpath(os.path.join(parent, name)) not in kept
        ]
        for name in files:
            seen += 1
            if seen > _MAX_ENTRIES:
                return
            path = os.path.join(parent, name)
            try:
                if os.lstat(path).st_mtime > since:
                    yield path
            except OSError:
                continue
