"""A run's folder: its description, its lock, and what it takes on the disk."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs import emulator
from rsctl.runs import folder as module
from rsctl.runs.disk_use import disk_use
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.home import is_rehearsed
from rsctl.runs.locks import holder, is_locked, try_lock

DESCRIPTION = RunDescription(
    run="job-1",
    target="process",
    request={"a": 1},
    replicas=["worker-0", "reducer-0"],
    restarts=module.RestartLimit(3, True),
    cost=module.CostLimit(5.0, 2.5, True),
    roles={"ps": "by-itself"},
)


def test_a_run_begins_once() -> None:
    folder = RunFolder("job-1")
    lock = folder.begin(DESCRIPTION)
    assert lock is not None
    assert folder.description() == DESCRIPTION
    assert (folder.path / "worker-0" / "tmp").is_dir()
    assert folder.is_supervised()
    assert folder.supervisor() == os.getpid()
    assert folder.begin(msgspec.structs.replace(DESCRIPTION, retries=9)) is None
    assert folder.description() == DESCRIPTION
    folder.claim(lock, 7)
    assert folder.supervisor() == 7
    os.close(lock)
    assert not folder.is_supervised()
    assert folder.supervisor() is None
    again = folder.lock()
    assert folder.supervisor() == os.getpid()
    os.close(again)


def test_a_run_without_space_for_its_files_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor without a file for its states could not record an end."""
    folder = RunFolder("job-1")

    def refuse(path: Path, _mode: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(RsctlError, match="No space left on device") as caught:
        folder.begin(DESCRIPTION)
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert not folder.is_supervised()


def test_a_check_of_the_lock_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder("job-1")
    folder.create(DESCRIPTION)
    held = try_lock(folder.path / "supervisor.lock")
    assert held is not None

    def release(_: float) -> None:
        os.close(held)

    monkeypatch.setattr(module, "sleep", release)
    os.close(folder.lock())


def test_a_folder_that_cannot_be_written_is_an_error_with_a_remedy(rsctl_home: Path) -> None:
    rsctl_home.mkdir()
    (rsctl_home / "runs").touch()
    with pytest.raises(RsctlError) as caught:
        RunFolder("job-1").begin(DESCRIPTION)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    message = f"cannot write {rsctl_home / 'runs' / 'job-1'}: Not a directory"
    remedy = "set RSCTL_HOME to your own folder with free space"
    assert caught.value.findings == (error("run-folder", message, remedy),)


def test_the_image_that_was_sent_is_noted_if_there_is_one() -> None:
    folder = RunFolder("job-aaaaaa")
    folder.path.mkdir(parents=True)
    folder.note_image(None)
    assert folder.image() is None
    folder.note_image("registry/image@sha256:1")
    assert folder.image() == "registry/image@sha256:1"


def test_the_time_of_the_last_request_and_of_the_last_look_are_noted() -> None:
    folder = RunFolder("job-1")
    assert (folder.last_request(), folder.unwatched_seconds()) == (None, 0.0)
    folder.create(DESCRIPTION)
    lock = folder.lock()
    folder.note_request()
    os.utime(folder.path / "requested", (1000, 1000))
    assert folder.last_request() == 1000
    os.utime(folder.path / "supervisor.lock", (1000, 1000))
    assert folder.unwatched_seconds() > 1e9
    folder.note_watched()
    assert 0 <= folder.unwatched_seconds() < 600
    os.close(lock)


def test_a_run_that_another_process_has_cancelled_does_not_start() -> None:
    folder = RunFolder("job-1")
    with pytest.raises(RsctlError, match=r"cannot write .*cancelled: No such file") as caught:
        folder.note_cancel()
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    folder.create(DESCRIPTION)
    folder.require_start()
    folder.note_cancel()
    assert folder.is_cancelled()
    with pytest.raises(RsctlError, match="another process has cancelled job-1") as caught:
        folder.require_start()
    assert caught.value.exit_code is ExitCode.CANCELLED


def test_a_job_has_half_a_minute_to_end_unless_it_says_otherwise() -> None:
    assert DESCRIPTION.grace_seconds == 30
    assert msgspec.structs.replace(DESCRIPTION, grace=5.0).grace_seconds == 5


def test_replicas_are_those_of_the_description_or_of_the_logs() -> None:
    folder = RunFolder("job-1")
    folder.create(DESCRIPTION)
    assert folder.replicas() == ["worker-0", "reducer-0"]
    for name in ("worker-0", "worker-1"):
        folder.log(name).parent.mkdir(exist_ok=True)
        folder.log(name).touch()
    for damage in (b"{", b'{"run":"\xff"}', b'{"request":{"a":' + b"[" * 100_000):
        (folder.path / "submission.json").write_bytes(damage)
        with pytest.raises((ValueError, RecursionError)):
            folder.description()
        assert folder.known_description() is None
        assert folder.replicas() == ["worker-0", "worker-1"]


@pytest.mark.parametrize("is_held", [True, False])
def test_a_lock_is_seen_on_a_disk_that_has_become_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    lock = try_lock(tmp_path / "lock")
    assert lock is not None
    if not is_held:
        os.close(lock)
    real = os.open

    def read_only(path: Path, flags: int, *rest: int) -> int:
        if flags & os.O_RDWR:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", read_only)
    if is_held:
        assert try_lock(tmp_path / "lock") is None
        os.close(lock)
    with pytest.raises(OSError, match="Read-only"):
        try_lock(tmp_path / "lock")


def test_locks_of_files_that_are_not_there_or_name_nobody(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path)
    assert holder(path) is None
    lock = try_lock(path)
    assert lock is not None
    assert try_lock(path) is None
    assert is_locked(path)
    assert holder(path) is None
    for text, process in (("12", 12), ("12   \n", 12), ("-1", None), ("1" * 150, int("1" * 100))):
        path.write_text(text)
        assert holder(path) == process
    os.close(lock)
    assert holder(path) is None
    assert path.stat().st_mode & 0o077 == 0


def test_a_holder_elsewhere_gets_no_signal(tmp_path: Path) -> None:
    """Its process id is another process's here: of another machine, or of another container."""
    path = tmp_path / "lock"
    lock = try_lock(path)
    assert lock is not None
    module.write_holder(lock, 12)
    assert holder(path, takes_signal=True) == 12
    here = path.read_text()
    boot, _, space = here.split()[1].partition("/")
    for machine in (f"{'0' * len(boot)}/{space}", f"{boot}/pid:[1]", "login-2"):
        path.write_text(f"{here[:20]}{machine}")
        assert holder(path) == 12
        assert holder(path, takes_signal=True) is None
    os.close(lock)


def test_an_emulator_elsewhere_is_alive_and_gets_no_signal() -> None:
    folder = RunFolder("job-1")
    folder.create(DESCRIPTION)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    lock = try_lock(folder.path / "emulator.lock")
    assert lock is not None
    os.write(lock, f"{process.pid:<10}{'':<10}login-2".encode())
    assert emulator.is_alive("job-1")
    emulator.end("job-1")
    process.communicate(b"\n", timeout=30)
    assert process.returncode == 0
    os.close(lock)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """As NFS without its lock service: the error names the file and the cause."""

    def refuse(_file: int, _operation: int) -> None:
        raise OSError(number, os.strerror(number))

    folder = RunFolder("job-1")
    folder.create(DESCRIPTION)
    (folder.path / "supervisor.lock").touch()
    monkeypatch.setattr("rsctl.runs.locks.fcntl.flock", refuse)
    files = len(os.listdir("/proc/self/fd"))
    for use in (folder.lock, folder.is_supervised):
        with pytest.raises(OSError, match="its file system refuses to lock files: ") as caught:
            use()
        assert caught.value.filename == str(folder.path / "supervisor.lock")
    with pytest.raises(RsctlError, match="refuses to lock files"):
        folder.begin(DESCRIPTION)
    assert len(os.listdir("/proc/self/fd")) == files


def test_the_emulator_of_a_rehearsal_is_found_and_ended() -> None:
    folder = RunFolder("job-1")
    assert emulator.environment_of("job-1") is None
    assert not is_rehearsed("job-1")
    assert not emulator.is_lost("job-1")
    emulator.end("job-1")
    folder.create(DESCRIPTION)
    (folder.path / "rehearsal.json").touch()
    assert is_rehearsed("job-1")
    (folder.path / "emulator.json").write_text('{"A": "b"}')
    assert emulator.environment_of("job-1") == {"A": "b"}
    assert emulator.is_lost("job-1")
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    lock = try_lock(folder.path / "emulator.lock")
    assert lock is not None
    module.write_holder(lock, process.pid)
    assert emulator.is_alive("job-1")
    assert not emulator.is_lost("job-1")
    emulator.end("job-1")
    assert process.wait(30) == -signal.SIGTERM
    emulator.end("job-1")  # its process is gone
    os.close(lock)
    assert not emulator.is_alive("job-1")
    (folder.path / "emulator.json").write_text("[]")
    assert emulator.environment_of("job-1") is None


def test_disk_use_counts_blocks_of_all_below_but_for_links_and_what_is_skipped(
    tmp_path: Path,
) -> None:
    def blocks(*paths: Path) -> int:
        return sum(path.lstat().st_blocks * 512 for path in paths)

    folder, deep = tmp_path / "a", tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    one, two, skipped = folder / "one", deep / "two", folder / "tmp"
    one.write_bytes(bytes(10_000))
    two.write_bytes(bytes(50_000))
    skipped.write_bytes(bytes(90_000))
    link = folder / "link"
    link.symlink_to(tmp_path)
    rest = blocks(folder, folder / "b", deep, one, two, link)
    assert disk_use(folder, ("tmp",)) == rest
    assert disk_use(folder, ("two",)) == rest + blocks(skipped)  # at the top alone
    assert disk_use(folder) == rest + blocks(skipped)
    assert disk_use(one) == blocks(one) > 0
    assert disk_use(link) == blocks(link)
    assert disk_use(tmp_path / "none") == 0
