"""The build of the core chooses a compiler, and reports the reason if it finds none."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rsctl.transport.build_core import LIBRARY, SOURCES, build, main
from rsctl.transport.native import library


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of programs, empty; and no zig."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    return folder


def add(folder: Path, name: str, script: str = 'echo "$0 $@" > "$RECORD"') -> None:
    """A compiler that writes its command, and makes a file of `-o FILE`."""
    made = 'while [ "$1" != -o ]; do shift; done; echo made > "$2"'
    (folder / name).write_text(f"#!/bin/sh\n{script}\n{made}\n")
    (folder / name).chmod(0o755)


def test_the_compiler_is_zig_then_that_of_the_environment_then_the_systems(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, record = tmp_path / "made" / "core.so", tmp_path / "record"
    monkeypatch.setenv("RECORD", str(record))

    def taken() -> str:
        record.unlink(missing_ok=True)
        assert build(library) is None
        assert library.read_text() == "made\n"
        assert [path.name for path in library.parent.iterdir()] == ["core.so"]
        return record.read_text()

    add(programs, "clang++")
    assert taken().startswith(f"{programs}/clang++ -std=c++17 ")
    add(programs, "g++")
    assert taken().startswith(f"{programs}/g++ -std=c++17 ")
    assert "-static-libstdc++" in taken()
    monkeypatch.setenv("CXX", "own")
    assert taken().startswith(f"{programs}/g++ ")  # the one of the environment is not installed
    add(programs, "own")
    assert taken().startswith(f"{programs}/own ")

    zig = ModuleType("ziglang")
    zig.__spec__ = importlib.machinery.ModuleSpec("ziglang", None)
    monkeypatch.setitem(sys.modules, "ziglang", zig)
    add(programs, "python")
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    found = taken()
    assert found.startswith(f"{programs}/python -m ziglang c++ -target ")
    assert "-linux-gnu.2.17 " in found
    assert "-static-libstdc++" not in found  # zig links its own


def test_a_core_with_sanitizers_keeps_its_symbols(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, record = tmp_path / "core.so", tmp_path / "record"
    monkeypatch.setenv("RECORD", str(record))
    add(programs, "c++")
    options = ["--output", str(library), "--sanitize", "address,undefined"]
    monkeypatch.setattr(sys, "argv", ["build_core", *options])
    assert main() == 0
    words = record.read_text().split()
    own = ["-fsanitize=address,undefined", "-g", "-fno-omit-frame-pointer", "-shared", "-o"]
    assert words[words.index(own[0]) :][: len(own)] == own
    assert not {"-static-libstdc++", "-static-libgcc", "-Wl,-s"}.intersection(words)


@pytest.mark.skipif(not LIBRARY.exists(), reason="no core")
def test_a_core_that_is_built_can_be_loaded() -> None:
    """Otherwise tests of the core would be skipped, or run with the Python engine."""
    assert library() is not None


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "there is no C++ compiler: install ziglang or g++"),
        (
            "echo warning >&2; echo 'a.cc:1: error: no \\377' >&2; exit 1",
            "a.cc:1: error: no \ufffd",
        ),
        ("echo odd >&2; exit 3", "exit 3"),
    ],
)
def test_what_fails_is_said_and_an_older_core_stays(
    programs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str | None,
    reason: str,
) -> None:
    library = tmp_path / "core.so"
    library.write_text("old")
    if script:
        add(programs, "c++", script)
    monkeypatch.setattr(sys, "argv", ["build_core", "--output", str(library)])
    assert main() == 1
    assert capsys.readouterr().err == f"the transport's core was not built: {reason}\n"
    assert library.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} - {"rsctl-home"} == {"bin", "core.so"}


class Hook:
    """What the build needs of hatchling's BuildHookInterface, which only a build installs."""

    target_name = "wheel"

    def __init__(self, root: Path, directory: Path) -> None:
        self.root, self.directory = str(root), str(directory)


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hook of a build from a checkout in the folder `checkout` into the folder `dist`."""
    checkout = tmp_path / "checkout"
    shutil.copytree(SOURCES, checkout / "rsctl/transport/core")
    shutil.copy(SOURCES.parent / "build_core.py", checkout / "rsctl/transport")
    (tmp_path / "dist").mkdir()
    interface = ModuleType("interface")
    monkeypatch.setattr(interface, "BuildHookInterface", Hook, raising=False)
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", interface)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delenv("RSCTL_CORE", raising=False)
    spec = importlib.util.spec_from_file_location(
        "_hook", Path(__file__).parents[2] / "hatch_build.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CoreHook(checkout, tmp_path / "dist")


def test_a_wheel_is_built_without_a_file_in_the_checkout(
    programs: Path, tmp_path: Path, hook: Any
) -> None:
    """A checkout may be read-only, or several machines may build from it."""
    add(programs, "c++", ":")
    before = set(tmp_path.rglob("*"))
    data: dict[str, Any] = {"force_include": {}, "artifacts": []}
    hook.initialize("standard", data)
    ((library, place),) = data["force_include"].items()
    assert (Path(library).read_text(), place) == ("made\n", "rsctl/transport/librsctl_core.so")
    assert set(tmp_path.rglob("*")) - before == {tmp_path / "dist" / "librsctl_core.so"}
    hook.finalize("standard", data, str(tmp_path / "dist" / "x.whl"))
    assert set(tmp_path.rglob("*")) == before


def test_an_editable_install_has_the_core_in_the_checkout(
    programs: Path, tmp_path: Path, hook: Any
) -> None:
    add(programs, "c++", ":")
    before = set(tmp_path.rglob("*"))
    data: dict[str, Any] = {"force_include": {}, "artifacts": []}
    hook.initialize("editable", data)
    hook.finalize("editable", data, str(tmp_path / "dist" / "x.whl"))
    made = tmp_path / "checkout/rsctl/transport/librsctl_core.so"
    assert set(tmp_path.rglob("*")) - before == {made}
    assert data["force_include"] == {}
