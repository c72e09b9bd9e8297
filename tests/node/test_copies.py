"""Copies on a node's own disk: whole or not there, once, and never outside their folder."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rsctl.node import copies, file_parts
from rsctl.node.copies import Copied, CopyRequest
from rsctl.node.errors import CONFIGURATION, TEMPORARY, LaunchError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "mounted" / "data"
    for name, content in {"a": b"a", "sub/b": b"bb", "sub/deep/c": b"", ".d": b"dddd"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def wanted(source: Path, *names: str) -> CopyRequest:
    base = source.parent.parent / "disk"
    marker = str(base / ".train.complete")
    return CopyRequest("train", str(source), str(base / "train/data"), marker, names or None)


def copied(data: CopyRequest) -> Copied:
    found = copies.copy(data)
    assert found is not None
    return found


def files(folder: str) -> dict[str, bytes]:
    paths = (path for path in Path(folder).rglob("*") if not path.is_dir())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_a_folder_is_copied_once(source: Path) -> None:
    data = wanted(source)
    first = copied(data)
    assert (first.files, first.bytes, first.left_out) == (4, 7, [])
    assert files(data.target) == {"a": b"a", "sub/b": b"bb", "sub/deep/c": b"", ".d": b"dddd"}
    shutil.rmtree(source)
    assert copies.copy(data) is None


def test_a_copy_of_another_user_is_neither_used_nor_continued(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a cluster users share a node's disk, and a marker may have been written for this job."""
    data = replace(wanted(source), is_shared=True)
    copied(data)
    copies._use.cache_clear()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(LaunchError, match="belongs to another user") as caught:
        copies.copy(data)
    assert (caught.value.exit_code, caught.value.code) == (TEMPORARY, "input")
    assert caught.value.remedy == (
        "Submit the job again, which copies to another folder, or set inputs.train.mode: mount."
    )


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("inside", ["", "inputs"])
def test_a_disk_on_which_the_user_cannot_write(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_shared: bool, inside: str
) -> None:
    """The next job has the same disk."""
    disk = tmp_path / "disk"

    def refuse(*_path: object, **_options: object) -> None:
        raise OSError(errno.EACCES, "Permission denied", str(disk))

    monkeypatch.setattr(os, "makedirs", refuse)
    marker = str(disk / inside / ".train.complete")
    with pytest.raises(LaunchError, match=f"{disk}: Permission denied") as caught:
        copies.copy(replace(wanted(source), marker=marker, is_shared=is_shared))
    assert caught.value.remedy == (
        f"Let the job's user write in {tmp_path}, or set inputs.train.mode: mount."
    )


def test_a_link_in_the_place_of_the_folder_is_not_followed(source: Path, tmp_path: Path) -> None:
    data = replace(wanted(source), is_shared=True)
    (tmp_path / "elsewhere").mkdir()
    Path(data.marker).parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LaunchError, match="cannot copy train"):
        copies.copy(data)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_other_users_cannot_read_a_copy(source: Path) -> None:
    data = replace(wanted(source), is_shared=True)
    copied(data)
    assert Path(data.marker).parent.stat().st_mode & 0o077 == 0


def test_in_a_container_any_of_its_users_can_read_a_copy(source: Path, tmp_path: Path) -> None:
    """A command may drop the rights of root, with which the copy was made."""
    data = wanted(source)
    copied(data)
    (tmp_path / "plain").mkdir()
    assert Path(data.marker).parent.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert sorted(os.listdir(Path(data.marker).parent)) == [".train.complete", "train"]


def test_a_copy_is_removed_by_the_last_process_that_uses_it(source: Path) -> None:
    """Two nodes of a job can be on one machine."""
    data = replace(wanted(source), is_shared=True)
    program = f"from rsctl.node import copies; copies.copy(copies.{data!r}); input('.')"
    command = [sys.executable, "-uc", program]
    first, second = (subprocess.Popen(command, stdin=-1, stdout=-1) for _ in range(2))
    assert [node.stdout.read(1) for node in (first, second) if node.stdout] == [b"."] * 2
    first.communicate(b"\n")
    assert Path(data.marker).exists()
    second.communicate(b"\n")
    assert (first.returncode, second.returncode) == (0, 0)
    assert not Path(data.marker).parent.exists()


def test_copies_of_a_killed_job_are_removed_by_the_next_one(source: Path, tmp_path: Path) -> None:
    """The copies of a job in progress are kept. A folder without a copy is kept too."""
    folders = [tmp_path / f"rsctl-{name}" for name in ("killed", "lives", "next", "mine")]
    folders[3].mkdir()
    program = "from rsctl.node import copies; copies.copy(copies.{!r}); input('.')"
    nodes = []
    for folder in folders[:3]:
        data = wanted(source)
        marker = f"{folder}/.train.complete"
        data = replace(data, target=f"{folder}/train/data", marker=marker, is_shared=True)
        command = [sys.executable, "-uc", program.format(data)]
        nodes.append(subprocess.Popen(command, stdin=-1, stdout=-1))
        assert nodes[-1].stdout is not None
        assert nodes[-1].stdout.read(1) == b"."
        if folder is folders[0]:
            nodes[0].kill()
            nodes[0].communicate()
            assert folder.exists()
    assert [folder.exists() for folder in folders] == [False, True, True, True]
    for node in nodes[1:]:
        node.communicate(b"\n")
    assert [folder.exists() for folder in folders] == [False, False, False, True]


def test_a_removal_that_was_killed_is_continued_by_the_next_job(
    source: Path, tmp_path: Path
) -> None:
    """Slurm kills a job 30 s after its stop, and large copies take longer to remove."""
    program = """
import os
from contextlib import nullcontext
from rsctl.node import copies
copies.copy(copies.{!r})
scandir = os.scandir
os.scandir = lambda path: nullcontext(sorted(scandir(path), key=lambda entry: entry.name))
unlink = os.unlink
def kill_at_data(path, **given):
    os._exit(9) if path == "{}" else unlink(path, **given)
os.unlink = kill_at_data
"""
    for folder, fatal, code in (("rsctl-killed", "a", 9), ("rsctl-next", "", 0)):
        target, marker = (f"{tmp_path}/{folder}/{name}" for name in ("train/d", ".train.complete"))
        data = replace(wanted(source), target=target, marker=marker, is_shared=True)
        done = subprocess.run([sys.executable, "-c", program.format(data, fatal)], check=False)
        assert done.returncode == code
    assert not list(tmp_path.glob("rsctl-*"))


def test_a_single_file_and_chosen_files(source: Path) -> None:
    other = source.parent
    single = CopyRequest("one", str(source / "a"), str(other / "one/a"), str(other / ".one"))
    assert copied(single).files == 1
    assert Path(single.target).read_bytes() == b"a"
    some = wanted(source, "a", "sub/b")
    assert copied(some).bytes == 3
    assert files(some.target) == {"a": b"a", "sub/b": b"bb"}


def test_another_part_of_the_shards_is_another_copy(source: Path) -> None:
    assert copied(wanted(source, "a")).files == 1
    assert copied(wanted(source, "a", ".d")).files == 1  # a is there already
    assert copies.copy(wanted(source, "a", ".d")) is None


def test_large_files_come_in_parts(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_parts, "_SEGMENT_BYTES", 1000)
    monkeypatch.setattr(file_parts, "_BLOCK", 300)
    content = os.urandom(12_345)
    (source / "large").write_bytes(content)
    data = wanted(source)
    copied(data)
    assert files(data.target)["large"] == content


def test_a_copy_that_was_cut_short_is_continued_and_not_used(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, read = wanted(source), os.preadv

    def broken(file: int, buffers: Any, offset: int) -> int:
        if os.readlink(f"/proc/self/fd/{file}").endswith("sub/b"):
            raise OSError(errno.EIO, "the mount is gone")
        return read(file, buffers, offset)

    monkeypatch.setattr(file_parts, "_TRIES", 1)
    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(LaunchError) as caught:
        copies.copy(data)
    assert (caught.value.exit_code, caught.value.code) == (TEMPORARY, "input")
    assert caught.value.message == f"cannot copy train: {data.target}: the mount is gone"
    assert not Path(data.marker).exists()
    assert "sub/b" not in files(data.target)
    monkeypatch.setattr(os, "preadv", read)
    before = sum(not name.endswith("rsctl-part") for name in files(data.target))
    assert copied(data).files == 4 - before
    assert set(files(data.target)) == {"a", "sub/b", "sub/deep/c", ".d"}


def test_a_file_that_changes_meanwhile_is_refused(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = file_parts._finish

    def changed(file: Any) -> None:
        os.utime(file.path, (1, 1))
        finish(file)

    monkeypatch.setattr(file_parts, "_finish", changed)
    with pytest.raises(LaunchError, match="changed while it was being read"):
        copies.copy(wanted(source))


def test_a_marker_of_something_else_or_a_damaged_one_does_not_count(source: Path) -> None:
    data = wanted(source)
    copied(data)
    for content in (b"", b"[]", b'{"of": ["/other"]}', b"\xff"):
        Path(data.marker).write_bytes(content)
        assert copied(data).files == 0  # all files are there, which is looked at again


def test_a_file_that_has_changed_since_an_earlier_start_is_copied_again(source: Path) -> None:
    """By its size or its time, also if something else is in its place."""
    data = wanted(source)
    copied(data)
    for name, content in (("a", b"A"), ("sub/b", b"BBB")):
        (source / name).write_bytes(content)
        os.utime(source / name, (1, 1))
    at = Path(data.target, ".d")
    at.unlink()
    at.symlink_to(source / ".d")
    Path(data.marker).unlink()
    assert copied(data).files == 3
    assert files(data.target) == {"a": b"A", "sub/b": b"BBB", "sub/deep/c": b"", ".d": b"dddd"}
    assert not at.is_symlink()


def test_links_stay_inside(source: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("key")
    (source / "inside").symlink_to("sub/b")
    (source / "outside").symlink_to(secret / "key")
    (source / "folder").symlink_to(secret)
    (source / "nothing").symlink_to("nowhere")
    (source / "loop").symlink_to("loop")
    os.mkfifo(source / "pipe")
    data = wanted(source)
    assert sorted(copied(data).left_out) == ["folder", "loop", "nothing", "outside", "pipe"]
    assert files(data.target)["inside"] == b"bb"
    assert not any(path.is_symlink() for path in Path(data.target).rglob("*"))


def test_a_link_in_the_place_of_a_part_is_not_written_through(source: Path, tmp_path: Path) -> None:
    data, victim = wanted(source), tmp_path / "victim"
    victim.write_text("mine")
    Path(data.target).mkdir(parents=True)
    part = file_parts.File("", f"{data.target}/a", 1, 0).part
    Path(part).symlink_to(victim)
    copied(data)
    assert victim.read_text() == "mine"
    assert not Path(part).is_symlink()


def test_names_as_long_as_can_be_are_kept_apart(source: Path) -> None:
    names = {"x" * 254 + last: last.encode() for last in "ab"} | {"é" * 127: b"c"}
    for name, content in names.items():
        (source / name).write_bytes(content)
    data = wanted(source)
    assert copied(data).files == 7
    assert names.items() <= files(data.target).items()


def test_too_small_a_disk_is_said_before_and_meanwhile(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = wanted(source)
    usage = shutil.disk_usage(source)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=6))
    with pytest.raises(LaunchError) as caught:
        copies.copy(data)
    error = caught.value
    assert (error.exit_code, error.code) == (CONFIGURATION, "disk")
    assert error.message == "train needs 7 bytes on this node's disk, which has only 6 free"
    assert error.remedy == "Set a larger workers.disk, or inputs.train.mode: mount."
    monkeypatch.undo()

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(LaunchError) as caught:
        copies.copy(data)
    assert (caught.value.code, caught.value.remedy) == ("disk", error.remedy)
    assert caught.value.message.endswith("No space left on device")


def test_what_is_not_there_is_said(source: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        copies.copy(wanted(source, "a", "gone"))
    missing = f"cannot copy train: {source}/gone: No such file or directory"
    assert caught.value.message == missing
    assert caught.value.remedy == f"Check that {source} exists and is readable."
