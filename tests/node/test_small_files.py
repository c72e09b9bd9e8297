"""Small files of the kernel, and temporary folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rsctl.node.small_files import fields, new_folder, remove_folder, temporary_folder

COMM = Path("/proc/self/comm")


@pytest.mark.parametrize("separator", ["\r", "\v", "\x1c", "\x85"])
def test_the_name_of_a_process_adds_no_field(separator: str) -> None:
    """The kernel escapes line feeds in it, and no other character that ends a line in Python."""
    name, before = f"a{separator}SigCgt:zz", COMM.read_bytes()
    try:
        COMM.write_bytes(name.encode())
        found = fields("/proc/self/status")
    finally:
        COMM.write_bytes(before)
    assert found["Name"] == name
    assert int(found["SigCgt"], 16) >= 0


def test_only_this_user_can_enter_a_new_folder_which_can_be_removed_with_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    empty, full = Path(new_folder("rsctl-x-")), Path(new_folder("rsctl-x-"))
    assert empty.parent == tmp_path
    assert empty.stat().st_mode & 0o777 == 0o700
    (full / "below").mkdir()
    (full / "below" / "file").touch()
    for path in (empty, full, tmp_path / "missing"):
        remove_folder(str(path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"TMPDIR": "own"},
        {"TEMP": "own"},
        {"TMP": "own"},
        {"TMPDIR": "missing", "TMP": "own"},
        {"TMPDIR": "", "TEMP": "missing"},
    ],
)
def test_temporary_files_are_where_those_of_python_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    (tmp_path / "own").mkdir()
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    for name, folder in given.items():
        monkeypatch.setenv(name, folder)
    monkeypatch.chdir(tmp_path)
    code = "import tempfile; print(tempfile.gettempdir())"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    assert temporary_folder() == done.stdout.strip()


def test_temporary_files_need_no_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert temporary_folder() == str(tmp_path)
