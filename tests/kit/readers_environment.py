"""The environment that `make quickstart` makes, beside the developers' one and made of its files.

It is a real environment with a Python of its own, and has links to the packages of `.[local]` and
of the quickstart's requirements, with all that these need. So it costs nothing, and a package that
only the developers have cannot be imported there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).parents[2]
_OF_THE_ENVIRONMENT = ("pip", "setuptools", "uv")
"""What `python -m venv` and the Makefile put there."""


def make_readers_environment(folder: Path) -> None:
    """Make it in a folder."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    installed = {canonicalize_name(d.metadata["Name"]): d for d in distributions()}
    needed = _needed(installed)
    theirs, others = set[PurePosixPath](), set[PurePosixPath]()
    for name, distribution in installed.items():
        (theirs if name in needed else others).update(
            PurePosixPath(file) for file in distribution.files or [] if ".." not in file.parts
        )
    shared = {parent for file in others for parent in file.parents}
    packages = next((folder / "lib").glob("python*/site-packages"))
    root = next(Path(d.locate_file("")) for d in installed.values())
    for top in {_highest(file, shared) for file in theirs}:
        link = packages / top
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(root / top)
    for name in needed:
        for script in _scripts(installed[name]):
            _copy_script(script, folder / "bin" / script.name, folder / "bin" / "python")


def _needed(installed: dict[str, Distribution]) -> set[str]:
    """The names of the packages, with all that they need."""
    lines = (TOP / "examples" / "quickstart" / "requirements.txt").read_text().splitlines()
    wanted = [Requirement(line) for line in lines if re.match(r"\w", line)]
    wanted += [Requirement("rsctl-train[local]"), *map(Requirement, _OF_THE_ENVIRONMENT)]
    found: set[str] = set()
    seen: set[str] = set()
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        if str(requirement) in seen or name not in installed:
            continue
        seen.add(str(requirement))
        found.add(name)
        for text in installed[name].requires or []:
            more = Requirement(text)
            extras = requirement.extras or {""}
            if not more.marker or any(more.marker.evaluate({"extra": each}) for each in extras):
                wanted.append(more)
    return found


def _highest(file: PurePosixPath, shared: set[PurePosixPath]) -> PurePosixPath:
    """The highest folder of a file that has no file of another package; otherwise the file."""
    folders = [parent for parent in reversed(file.parents) if parent.parts]
    return next((parent for parent in folders if parent not in shared), file)


def _scripts(distribution: Distribution) -> list[Path]:
    files = [Path(str(distribution.locate_file(file))) for file in distribution.files or []]
    return [path.resolve() for path in files if path.parent.name == "bin" and ".." in path.parts]


def _copy_script(script: Path, copy: Path, python: Path) -> None:
    text = script.read_bytes()
    if text.startswith(b"#!") and b"python" in text.splitlines()[0]:
        copy.write_bytes(b"\n".join([b"#!" + os.fsencode(python), *text.splitlines()[1:], b""]))
        copy.chmod(0o755)
    else:
        copy.symlink_to(script)
