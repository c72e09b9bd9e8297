"""What users are told to type to install what rsctl can do without."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from rsctl.installation import install_command
from rsctl.node.binding import FIRST_AUTOLOAD

ROOT = Path(__file__).parents[1]


def test_the_command_names_packages_and_never_our_own_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pip", ModuleType("pip"))
    sys.modules["pip"].__spec__ = ModuleSpec("pip", None)
    assert install_command("local") == f"{sys.executable} -m pip install numpy 'torch>=2.5'"
    assert "rsctl" not in install_command("sdk").removeprefix(sys.executable)


def test_an_environment_without_pip_is_one_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    uv = f"uv pip install --python {sys.executable}"
    assert install_command("arrow") == f"{uv} 'pyarrow>=15'"


def test_where_rsctl_is_not_installed_its_checkout_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def not_found(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", not_found)
    assert install_command("local") == "pip install '.[local]' in a checkout of rsctl"


def test_the_oldest_torch_is_the_same_everywhere() -> None:
    """Where a version is a link's text, the link leads to the section that this looks at."""
    (needed,) = re.findall(r'"torch>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert needed == ".".join(map(str, FIRST_AUTOLOAD))
    page = (ROOT / "docs/start/install.md").read_text()
    section = page.partition("## Versions of PyTorch")[2].partition("\n## ")[0]
    assert f"rsctl needs torch {needed} or later" in section
    assert f"| before {needed} | supports `comm.backend: smddp`" in section
    script = (ROOT / ".ci/torch-versions").read_text()
    (smddp,) = re.findall(r"^smddp=([\d.]+)\.\*", script, re.MULTILINE)
    assert f"CI tests {smddp}, {needed}, the version in `constraints/base.txt`" in section


def test_an_old_python_makes_no_environment(tmp_path: Path) -> None:
    """Which would be used again, also with another PYTHON."""
    python = tmp_path / "python"
    old = "import sys; sys.version_info = (3, 9, 18); exec(sys.argv[1])"
    python.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} -c "{old}" "$2"\nmkdir "$3"\n'
    )
    python.chmod(0o755)
    where = ["-C", str(tmp_path), "-f", str(ROOT / "Makefile")]
    command = ["make", *where, f"PYTHON={python}", ".venv/bin/uv"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "rsctl needs Python 3.10 or newer: add PYTHON=python3.12, or another one" in done.stderr
    assert (done.returncode, (tmp_path / ".venv").exists()) == (2, False)
