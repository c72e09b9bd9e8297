"""What CI installs is pinned: a new version of a dependency changes nothing by itself."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

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


def test_all_that_is_installed_here_is_pinned() -> None:
    installed = {
        normal(d.metadata["Name"]): d.version.partition("+")[0] for d in metadata.distributions()
    }
    wanted = pins("base.txt")
    assert {n: v for n, v in installed.items() if n not in NOT_OURS and wanted.get(n) != v} == {}


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
