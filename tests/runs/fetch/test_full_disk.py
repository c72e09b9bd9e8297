"""A disk that is full in the middle of `rsctl get`."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.runs.fetch.directory import Directory
from tests.kit.disks import fill
from tests.kit.disks import small_disk as small_disk
from tests.runs.fetch.test_buckets import Cloud, content_of
from tests.runs.fetch.test_buckets import cloud as cloud
from tests.targets.managed.emulator.conftest import aws as aws
from tests.targets.managed.emulator.conftest import bare_environment as bare_environment
from tests.targets.managed.emulator.conftest import google as google


@pytest.fixture(autouse=True)
def others_write_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The space that is free at the beginning is not there any more when it is needed."""
    monkeypatch.setattr(Directory, "free", lambda _: 1 << 40)


def assert_full(caught: pytest.ExceptionInfo[RsctlError], path: str) -> None:
    [finding] = caught.value.findings
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert finding.message == f"cannot write {path}: No space left on device"
    assert finding.remedy == (
        "free disk space and run the command again: it continues where it stopped"
    )


def test_what_came_is_kept_and_the_next_call_goes_on(cloud: Cloud, small_disk: Path) -> None:
    content = os.urandom(3 << 20)
    cloud.put("out/a", content)
    filler = fill(small_disk, left=2 << 20)
    home = small_disk / "home"
    with pytest.raises(RsctlError) as caught:
        cloud.outputs(home)
    assert_full(caught, "outputs/a")
    [(part, kept)] = content_of(home).items()
    assert part != "outputs/a"
    assert len(kept) > 1 << 20
    filler.unlink()
    before = cloud.reads
    assert [file.state for file in cloud.outputs(home).files] == ["fetched"]
    assert content_of(home) == {"outputs/a": content}
    assert cloud.reads == before + 1


@pytest.mark.parametrize("left", [1 << 20, 5 << 18], ids=["between blocks", "in the last block"])
def test_an_archive_leaves_no_half_file(cloud: Cloud, small_disk: Path, left: int) -> None:
    packed, content = io.BytesIO(), bytes(3 << 19)
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("model.pt")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    cloud.put("out/output/model.tar.gz", packed.getvalue())
    results = {"model": f"{cloud.url}/out/output/model.tar.gz"}
    filler = fill(small_disk, left)
    home = small_disk / "home"
    with pytest.raises(RsctlError) as caught:
        cloud.fetch(home, results)
    assert_full(caught, "artifacts/model/model.pt")
    assert not (home / "artifacts" / "model" / "model.pt").exists()
    filler.unlink()
    cloud.fetch(home, results)
    assert content_of(home) == {"artifacts/model/model.pt": content}
