"""What of rsctl goes into an image, alone on Python's path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rsctl.images import runtime_files
from rsctl.images.context import ContextEntry
from rsctl.images.findings import recipe_of
from rsctl.images.runtime_files import runtime_entries

from .conftest import ReadJob


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    for entry in runtime_entries(""):
        path = tmp_path / entry.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with entry.open() as file:
            path.write_bytes(file.read())
    return tmp_path


def test_it_is_the_runtime_and_the_transport(unpacked: Path) -> None:
    assert sorted(path.name for path in (unpacked / "rsctl").iterdir()) == [
        "__init__.py",
        "node",
        "transport",
    ]


def test_they_need_nothing_else_of_rsctl(unpacked: Path) -> None:
    code = (
        "import rsctl.node.node, rsctl.transport.reduce, rsctl.transport.client, sys\n"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('rsctl.')}\n"
        "print(sorted(rooms), rsctl.__file__)"
    )
    done = run(unpacked, code)
    assert done == f"['node', 'transport'] {unpacked}/rsctl/__init__.py\n"


def test_torch_finds_the_binding(unpacked: Path) -> None:
    code = (
        "from importlib.metadata import entry_points\n"
        "[found] = entry_points(group='torch.backends', name='rsctl')\n"
        "print(found.value, found.load().__module__)\n"
        "[found] = entry_points(group='torch.distributed.backends', name='rsctl')\n"
        "print(found.value, found.load().__module__)"
    )
    assert run(unpacked, code) == (
        "rsctl_start:autoload rsctl_start\nrsctl_start:register rsctl_start\n"
    )


def run(folder: Path, code: str) -> str:
    """What a Python prints that finds rsctl in a folder, and its own packages nowhere."""
    argv = [sys.executable, "-S", "-c", code]
    env = {"PYTHONPATH": str(folder), "PATH": ""}
    done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_core_stands_for_its_sources() -> None:
    cores = [entry for entry in runtime_entries("") if entry.name.endswith(".so")]
    assert all(isinstance(core, ContextEntry) and core.made_from for core in cores)


def test_only_its_own_transport_makes_the_tag_depend_on_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: ReadJob
) -> None:
    (tmp_path / "core.so").write_bytes(b"machine code")

    def plan(transport: str, core: str) -> tuple[str, bool]:
        monkeypatch.setattr(runtime_files, "_CORE", tmp_path / core)
        recipe, found = recipe_of(job(f"base: base\n  transport: {transport}"), "compose")
        return recipe.digest, any(finding.code == "core" for finding in found)

    assert plan("none", "core.so") == plan("none", "absent.so")
    with_core, without = plan("rsctl", "core.so"), plan("rsctl", "absent.so")
    assert with_core[0] != without[0]
    assert (with_core[1], without[1]) == (False, True)
