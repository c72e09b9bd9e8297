"""Files that are written whole or not at all, also where the disk is full in the middle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

import pytest

from rsctl.atomic_file import write_file
from rsctl.findings import ExitCode, RsctlError
from tests.kit.disks import fill
from tests.kit.disks import small_disk as small_disk


@pytest.mark.parametrize("is_function", [False, True])
def test_a_full_disk_leaves_the_old_file_and_no_part(small_disk: Path, is_function: bool) -> None:
    file = small_disk / "file"
    file.write_bytes(b"old")
    filler = fill(small_disk, left=1 << 20)
    new = bytes(2 << 20)

    def write(out: IO[bytes]) -> None:
        for _ in range(2 << 10):
            out.write(bytes(1 << 10))

    with pytest.raises(RsctlError) as caught:
        write_file(file, write if is_function else new, "give another path with -o")
    [finding] = caught.value.findings
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert finding.message == f"cannot write {file}: No space left on device"
    assert finding.remedy == "free disk space, and run the command again"
    assert file.read_bytes() == b"old"
    assert sorted(os.listdir(small_disk)) == ["file", "filler"]
    filler.unlink()
    write_file(file, new)
    assert file.read_bytes() == new


def test_another_cause_has_the_callers_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RsctlError) as caught:
        write_file(tmp_path / "file" / "below", b"x", "give another path with -o")
    [finding] = caught.value.findings
    assert finding.message == f"cannot write {tmp_path}/file/below: Not a directory"
    assert finding.remedy == "give another path with -o"


def test_what_raises_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    def write(out: IO[bytes]) -> None:
        out.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "file", write)
    assert os.listdir(tmp_path) == []


def test_a_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to("file")
    write_file(link, b"new")
    assert (link.is_symlink(), file.read_bytes(), file.stat().st_mode & 0o777) == (
        True,
        b"new",
        0o640,
    )


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    write_file(tmp_path / "sub" / "file", b"new")
    (tmp_path / "usual").write_bytes(b"")
    assert (tmp_path / "sub" / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, b"to a pipe")
    assert os.read(reader, 100) == b"to a pipe"
    os.close(reader)
    assert pipe.is_fifo()
