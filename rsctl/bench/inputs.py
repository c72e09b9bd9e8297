"""The inputs of a bench without an image: files of its source folder and installed packages.

Runs on target process work in the source folder itself and may write there, so a file counts only
if it is an input: what git tracks or, without git, what has the name of code or of a configuration.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from rsctl.bench.differences import OTHER_FILES
from rsctl.bench.own_files import is_own_file
from rsctl.images.context import BuildContext, ContextEntry, source_entries
from rsctl.images.dockerignore import Dockerignore
from rsctl.images.git_index import tracked_files
from rsctl.images.gitignore import work_tree_of

_CODE = (".py", ".sh", ".so", ".pyd")
_CONFIGURATION = (".cfg", ".ini", ".json", ".toml", ".txt", ".yaml", ".yml")
_PACKAGES = ("site-packages", "dist-packages")
_METADATA = (".dist-info", ".egg-info")
_MOST_FILES, _SHORT = 500, 12


def code_digest(source: Path, script: str | None) -> str:
    """A digest of the code in a source folder, and of its script. Raises OSError."""
    return BuildContext(
        _files(source, lambda name: name.endswith(_CODE) or name == script)
    ).digest()


def source_digest(source: Path, ignored: Collection[Path] = ()) -> str:
    """A digest of the inputs in a source folder, less the files of `ignored`. Raises OSError.

    In a repository these are the files that git tracks, as they are now, and code. Elsewhere they
    are code and configurations. What `.dockerignore` excludes does not count, nor do baselines,
    histories and reports that rsctl wrote.
    """
    return BuildContext(_inputs(source, ignored)).digest()


def source_files(source: Path, ignored: Collection[Path] = ()) -> dict[str, str]:
    """A short digest of each of these inputs by `file NAME`; one for all beyond 500 of them."""
    chosen = sorted(_inputs(source, ignored), key=lambda entry: entry.name)
    found = {_key(e.name): BuildContext([e]).digest()[:_SHORT] for e in chosen[:_MOST_FILES]}
    if chosen[_MOST_FILES:]:
        found[OTHER_FILES] = BuildContext(chosen[_MOST_FILES:]).digest()[:_SHORT]
    return found


def _key(name: str) -> str:
    """The key of a file, also of one whose name is not UTF-8: keys are stored as JSON."""
    return f"file {name.encode(errors='backslashreplace').decode()}"


def _inputs(source: Path, ignored: Collection[Path]) -> list[ContextEntry]:
    without = {os.path.realpath(path) for path in ignored}
    top = os.path.realpath(source)
    return [
        entry
        for entry in _files(source, _input_test(source))
        if os.path.join(top, entry.name) not in without
        and not (entry.link and os.path.realpath(source / entry.name) in without)
        and not _is_own(entry)
    ]


def _is_own(entry: ContextEntry) -> bool:
    if entry.path is None or entry.name.endswith(_CODE):
        return False
    with entry.open() as file:
        return is_own_file(file)


def _input_test(source: Path) -> Callable[[str], bool]:
    tree, prefix = work_tree_of(source)
    tracked = tracked_files(tree) if tree else frozenset()
    inside = f"{prefix}/" if prefix else ""
    has_tracked = any(name.startswith(inside) for name in tracked)

    def is_input(name: str) -> bool:
        is_source = inside + name in tracked if has_tracked else name.endswith(_CONFIGURATION)
        return is_source or name.endswith(_CODE)

    return is_input


def _files(source: Path, wanted: Callable[[str], bool]) -> list[ContextEntry]:
    """The files and links of a folder that `wanted` chooses by name. Raises OSError."""
    entries, _ = source_entries(source, "", Dockerignore.of(source), wanted)
    return [entry for entry in entries if entry.path is not None or entry.link is not None]


def packages_digest(python: Path | None = None) -> str:
    """A digest of the packages that a Python has, by name and version.

    `python` is an interpreter of a virtual environment; None is the one that runs this.
    """
    names = "\n".join(_packages(python))
    return hashlib.sha256(names.encode(errors="surrogateescape")).hexdigest()


def packages(python: Path | None = None) -> dict[str, str]:
    """The version of each of these packages by `package NAME`."""
    found = {}
    for name in _packages(python):
        package, _, version = name.rpartition(".")[0].partition("-")
        found[f"package {package}"] = version.partition("-")[0] or "unknown"
    return found


def _packages(python: Path | None) -> list[str]:
    if python is None:
        folders: Iterable[Path] = [Path(folder) for folder in sys.path]
    else:
        folders = python.parent.parent.glob("lib*/python*/*")
    return sorted(
        {
            name
            for folder in folders
            if folder.name in _PACKAGES and folder.is_dir()
            for name in os.listdir(folder)
            if name.endswith(_METADATA)
        }
    )
