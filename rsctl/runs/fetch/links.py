"""Links to folders, such as `latest -> step-500`: the links to make, and the files they select.
Pure.

A link is made next to its folder, so that files are not downloaded twice; a pattern that matches
the path of a file through a link selects that file too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping


class FolderLinks:
    """The links of one location, whose files are below `folder`.

    `targets` are the folders that they lead to, relative to `folder`; empty for `folder` itself.
    """

    def __init__(self, folder: str, targets: Mapping[str, str]) -> None:
        self._targets = {
            f"{folder}/{link}": f"{folder}/{to}" if to else folder for link, to in targets.items()
        }
        self._links: dict[str, list[str]] = {}
        for link, target in self._targets.items():
            self._links.setdefault(target, []).append(link)

    def chooses(self, is_chosen: Callable[[str], bool], path: str) -> bool:
        """Whether a file is selected by its path, or by a path through a link."""
        return is_chosen(path) or any(
            is_chosen(link + path[len(folder) :])
            for folder in (_folders(path) if self._links else ())
            for link in self._links.get(folder, ())
        )

    def to(self, paths: Iterable[str]) -> dict[str, str]:
        """The links to folders that contain one of these files, and the target of each."""
        filled = self._filled(paths)
        return {link: target for link, target in self._targets.items() if target in filled}

    def empty(self, paths: Iterable[str]) -> list[str]:
        """The links to folders that contain none of these files."""
        filled = self._filled(paths)
        return [link for link, target in self._targets.items() if target not in filled]

    def _filled(self, paths: Iterable[str]) -> set[str]:
        if not self._targets:
            return set()
        return {folder for path in paths for folder in _folders(path) if folder in self._links}


def _folders(path: str) -> Iterator[str]:
    """The folders that a file is in, from the innermost on."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
