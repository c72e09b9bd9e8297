"""Git submodules that are not initialized: empty folders, in place of the code that a job needs."""

from __future__ import annotations

import os
from pathlib import Path

from rsctl.images.git_index import submodules
from rsctl.images.git_repository import find_repository

REASON = "a git submodule that is not initialized, so its folder is empty"


class EmptySubmodules:
    """Recognizes such folders; it reads each repository's index once, for empty folders only."""

    def __init__(self) -> None:
        self._known: dict[Path, frozenset[str]] = {}

    def reason(self, folder: Path) -> str | None:
        """Why a folder is without content; None if it has some, or is not a submodule."""
        with os.scandir(folder) as entries:
            if any(entries):
                return None
        try:
            folder = folder.resolve()
            found = find_repository(folder.parent)
        except (OSError, ValueError):
            return None
        if found is None:
            return None
        if found.top not in self._known:
            self._known[found.top] = submodules(found.top)
        is_one = str(folder.relative_to(found.top)) in self._known[found.top]
        return REASON if is_one else None
