"""The last build of each job's image, saved so that the next one can show the changes."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from rsctl.atomic_file import read_json, write_file
from rsctl.findings import RsctlError
from rsctl.images.recipe import Recipe
from rsctl.runs.home import home, private_folder


class ImageChange(msgspec.Struct, frozen=True):
    """One file of the context, or the Dockerfile or platform, that is not as in the last build."""

    path: str
    change: Literal["added", "removed", "changed"]


class _SavedBuild(msgspec.Struct):
    reference: str
    hashes: dict[str, str]


def changes_since_last_build(recipe: Recipe) -> list[ImageChange] | None:
    """The differences from the last build of this name here; None if there was none."""
    last = read_json(_path(recipe), _SavedBuild)
    if last is None:
        return None
    now = _hashes(recipe)
    names = sorted(now.keys() | last.hashes.keys())
    return [
        ImageChange(name, _change(last.hashes.get(name), now.get(name)))
        for name in names
        if last.hashes.get(name) != now.get(name)
    ]


def save_build(recipe: Recipe) -> None:
    """Save a build that has succeeded. If this fails, only the next build shows no changes."""
    path = _path(recipe)
    with suppress(OSError, RsctlError):
        private_folder(path.parent)
        write_file(path, msgspec.json.encode(_SavedBuild(recipe.reference, _hashes(recipe))))


def _change(before: str | None, after: str | None) -> Literal["added", "removed", "changed"]:
    if before is None:
        return "added"
    return "removed" if after is None else "changed"


def _hashes(recipe: Recipe) -> dict[str, str]:
    """Names that cannot be written as text are escaped, as they are shown."""
    dockerfile = f"{recipe.platform}\n{recipe.dockerfile(cache_mounts=True)}"
    hashes = {"Dockerfile": hashlib.sha256(dockerfile.encode()).hexdigest()}
    for name, hashed in recipe.context.hashes.items():
        shown = name.encode(errors="backslashreplace").decode()
        hashes[shown] = hashed.encode(errors="backslashreplace").decode()
    return hashes


def _path(recipe: Recipe) -> Path:
    return home() / "images" / f"{recipe.name}.json"
