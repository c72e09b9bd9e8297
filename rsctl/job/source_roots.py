"""The folders below a source folder from which Python imports a project's packages.

A project with a `src` layout is imported from `src/`, which is not where its programs are started.
`pyproject.toml` says so in the words of its build backend; without a word, `src` is looked at,
unless the file has only settings of tools: a folder `src` outside a project may contain packages
with the names of other projects.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

_LARGEST = 1 << 20
_SETUP_FILES = ("setup.py", "setup.cfg")
_PROJECT_TABLE = re.compile(r"^\s*\[\s*(?:project|build-system|tool\.poetry)\s*\]", re.M)
_SETUP_CFG = re.compile(r"^\s*(?:where\s*=|package_dir\s*=\s*\n?\s*=)\s*([\w./-]+)\s*$", re.M)
_PROGRAMS = ("train", "main", "__main__")


def source_roots(folder: Path) -> list[str]:
    """Paths relative to a project's folder, such as `src`; none for packages that lie in it."""
    pyproject = _text(folder / "pyproject.toml")
    named = [*_in_pyproject(pyproject), *_SETUP_CFG.findall(_text(folder / "setup.cfg"))]
    is_project = _PROJECT_TABLE.search(pyproject) is not None  # and not settings of tools alone
    if is_project or any((folder / name).is_file() for name in _SETUP_FILES):
        named.append("src")
    roots = dict.fromkeys(_normal(str(each)) for each in named)
    return [root for root in roots if root and _is_root(folder, root)]


def programs(folder: Path) -> Iterator[tuple[str, Path]]:
    """Modules of a project's packages that look like what one starts, with their files."""
    for root in (*source_roots(folder), "."):
        for package in sorted(_packages(folder / root)):
            for name in _PROGRAMS:
                file = folder / root / package / f"{name}.py"
                if file.is_file():
                    yield package if name == "__main__" else f"{package}.{name}", file


def find_module(folder: Path, name: str) -> str | None:
    """The folder below a source folder that has a module of this name at its top; `.` for itself.

    Looks in the project's own roots first, then three folders deep.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return None
    roots = [*source_roots(folder), "src"]
    near, candidates = len(roots), [*roots, ".", *_subfolders(folder, 3)]
    for root in candidates:
        place = folder / root
        if (place / f"{name}.py").is_file() or (place / name / "__init__.py").is_file():
            return root
    # Far from where projects keep packages, a folder of that name may be anything.
    return next((root for root in candidates[:near] if _is_namespace(folder / root / name)), None)


def _subfolders(folder: Path, depth: int, prefix: str = "") -> Iterator[str]:
    """Folders below this one, those that are nearer first; few enough to look into."""
    try:
        inside = [each for each in sorted(folder.iterdir()) if _may_have_modules(each)][:100]
    except OSError:
        return
    yield from (f"{prefix}{each.name}" for each in inside)
    if depth > 1:
        for each in inside:
            yield from _subfolders(each, depth - 1, f"{prefix}{each.name}/")


def _may_have_modules(path: Path) -> bool:
    is_venv = (path / "pyvenv.cfg").exists()
    return path.is_dir() and not path.is_symlink() and path.name[0] not in "._" and not is_venv


def _is_namespace(place: Path) -> bool:
    """Whether a folder without `__init__.py` has modules, which Python imports likewise."""
    return next(place.glob("*.py"), None) is not None


def _is_root(folder: Path, root: str) -> bool:
    place = folder / root
    if not place.is_dir() or (place / "__init__.py").exists():
        return False
    return bool(_packages(place)) or any(map(_is_namespace, place.iterdir()))


def _packages(place: Path) -> list[str]:
    try:
        return [each.name for each in place.iterdir() if (each / "__init__.py").is_file()]
    except OSError:
        return []


def _normal(path: str) -> str:
    """A path below the project's folder; empty for the folder itself and what is outside."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "" if path.startswith("/") or ".." in parts else "/".join(parts)


def _in_pyproject(text: str) -> Iterator[object]:
    """Roots in the settings of build backends: setuptools, Poetry, Hatch, PDM, uv and Maturin."""
    if not text:
        return
    tomllib: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        tool = _table(tomllib.loads(text), "tool")
    except (ValueError, RecursionError):
        return
    setuptools = _table(tool, "setuptools")
    yield from _list(_table(_table(setuptools, "packages"), "find").get("where"))
    yield _table(setuptools, "package-dir").get("", "")
    for package in _list(_table(tool, "poetry").get("packages")):
        yield package.get("from", "") if isinstance(package, dict) else ""
    build = _table(_table(tool, "hatch"), "build")
    for part in (build, _table(_table(build, "targets"), "wheel")):
        yield from _list(part.get("sources"))
        yield from (old for old, new in _table(part, "sources").items() if new == "")
        for package in _list(part.get("packages")):
            yield str(package).rpartition("/")[0]
    yield _table(_table(tool, "pdm"), "build").get("package-dir", "")
    yield _table(_table(tool, "uv"), "build-backend").get("module-root", "")
    yield _table(tool, "maturin").get("python-source", "")


def _table(table: Any, name: str) -> dict[str, Any]:
    found = table.get(name) if isinstance(table, dict) else None
    return found if isinstance(found, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
