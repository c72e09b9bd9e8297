"""What CI installs is pinned: a new version of a dependency changes nothing by itself."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

TOP = Path(__file__).parent.parent
PINNED = re.compile(r"([\w.-]+)==([^\s;]+)(?: ; python_version >= \"3\.11\")?")
NOT_OURS = {"rsctl-train", "rsctl", "pip", "setuptools", "wheel"}
"""rsctl itself, and what Python's own venv brings."""


def pins(file: str) -> dict[str, str]:
    found = {}
    for line in (TOP / "constraints" / file).read_text().splitlines():
        if not line.startswith("#"):
            match = PINNED.fullmatch(line)
            assert match, line
            found[normal(match[1])] = match[2]
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older Pythons choose other versions")
def test_all_that_is_installed_here_is_pinned() -> None:
    installed = {
        normal(d.metadata["Name"]): d.version.partition("+")[0] for d in metadata.distributions()
    }
    wanted = pins("base.txt")
    assert {n: v for n, v in installed.items() if n not in NOT_OURS and wanted.get(n) != v} == {}


def test_the_oldest_python_can_install_what_is_pinned_for_it() -> None:
    """`make quickstart` installs the pinned versions, with each Python that README promises."""
    project = re.search(r'requires-python = ">=([\d.]+)"', (TOP / "pyproject.toml").read_text())
    assert project is not None
    lines = (TOP / "constraints" / "base.txt").read_text().splitlines()
    everywhere = {normal(line.partition("==")[0]) for line in lines if ";" not in line}
    needs = {
        normal(d.metadata["Name"]): d.metadata.get("Requires-Python") or ""
        for d in metadata.distributions()
    }
    assert {
        name: needed
        for name, needed in needs.items()
        if name in everywhere and not SpecifierSet(needed).contains(project[1])
    } == {}


def test_what_builds_rsctl_is_pinned() -> None:
    for name in ("base", "sdk", "estimators", "trackers"):
        assert {"hatchling", "editables", "trove-classifiers"} <= pins(f"{name}.txt").keys()
    for name in ("google-cloud-aiplatform", "sagemaker"):
        assert name in pins("sdk.txt")


def test_nothing_is_installed_in_ci_without_constraints() -> None:
    bare = []
    for path in (TOP / "Makefile", *sorted((TOP / ".ci").iterdir())):
        text = path.read_text().replace("\\\n", " ")
        for line in text.splitlines():
            installs = re.search(r"\bpip (install|download)\b", line) and "echo" not in line
            if installs and " -c " not in line:
                bare.append(f"{path.name}: {line.strip()}")
    assert bare == []
