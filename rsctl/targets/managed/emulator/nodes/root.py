"""The root folder of a node that is a process, where its mounts are links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path


class Root:
    """A node's root folder: `mounts` are links below it. Raises OSError.

    It is made again each time that the node starts.
    """

    def __init__(self, folder: Path, mounts: Mapping[str, Path]) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        for inside, outside in sorted(mounts.items()):  # one inside another comes after it
            if not outside.exists():
                outside.mkdir(parents=True)
            self._link(self.folder / inside.strip("/"), outside.resolve())
        paths = "|".join(map(re.escape, mounts))
        self._mounted = re.compile(rf"(?:^|=)(?=(?:{paths})(?:/|$))") if mounts else None

    def leads(self, text: str) -> str:
        """The text, a mounted path at its beginning or after `=` led below the root."""
        if self._mounted is None:
            return text
        return self._mounted.sub(lambda found: found[0] + str(self.folder), text, count=1)

    def _link(self, link: Path, outside: Path) -> None:
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink():
            link.unlink()
        elif link.is_dir():
            link.rmdir()
        link.symlink_to(outside)
