"""What installs a package in a container: text that runs in images nobody here knows."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.sagemaker import emulator as sagemaker
from rsctl.targets.vertex import emulator as vertex
from rsctl.targets.vertex.emulator import package_start

STARTS = [Path(vertex.__path__[0], "package_start.py")]
STARTS += [Path(sagemaker.__path__[0], "toolkit_start.py")]


@pytest.mark.parametrize("path", STARTS, ids=lambda path: path.name)
def test_it_is_python_3_7(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 7))


@pytest.mark.parametrize(
    ("base", "options"), [("/usr", ["a.tar.gz"]), ("", ["--user", "a.tar.gz"])]
)
def test_a_virtual_environment_sees_nothing_of_its_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, base: str, options: list[str]
) -> None:
    """pip refuses --user there; elsewhere the image's own files may not be the user's to write."""
    installed: list[list[str]] = []
    started: list[Any] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RSCTL_ROOT", raising=False)
    monkeypatch.setattr(sys, "base_prefix", base or sys.prefix)
    monkeypatch.setattr(package_start, "install", installed.append)
    monkeypatch.setattr(os, "execv", lambda _path, words: started.append(words[1:]))
    package_start.main("trainer.task", "1", "a.tar.gz", "--epochs", "2")
    assert (installed, started) == ([options], [["-m", "trainer.task", "--epochs", "2"]])
