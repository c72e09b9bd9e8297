"""Inputs in buckets and folders, brought to this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, RsctlError
from rsctl.runs.fetch.fetch import Fetched, FetchSelection, fetch
from rsctl.runs.fetch.inputs import input_location
from tests.targets.managed.emulator.conftest import aws as aws
from tests.targets.managed.emulator.conftest import bare_environment as bare_environment
from tests.targets.managed.emulator.conftest import google as google

from .test_buckets import HOSTILE, QUICK, Cloud, content_of
from .test_buckets import cloud as cloud


def bring(location: str, folder: Path) -> Fetched:
    where = input_location("train", location, Endpoints.of_environment())
    return fetch("job-aaaaaa", [where], folder, FetchSelection(kinds=frozenset({"inputs"})), QUICK)


def test_a_prefix_is_a_folder_of_its_name(cloud: Cloud, tmp_path: Path) -> None:
    for name in ("data/a", "data/b/c", "data-other"):
        cloud.put(name, name.encode())
    cloud.put("data/folder/", b"")
    for location in (f"{cloud.url}/data", f"{cloud.url}/data/"):
        fetched = bring(location, tmp_path / "copy")
        assert {file.checksum for file in fetched.files} == {"md5"}
        files = {"train/data/a": b"data/a", "train/data/b/c": b"data/b/c"}
        assert content_of(tmp_path / "copy") == files
    assert {file.state for file in fetched.files} == {"unchanged"}


def test_an_object_and_a_whole_bucket(cloud: Cloud, tmp_path: Path) -> None:
    cloud.put("data/x.tar", b"x")
    bring(f"{cloud.url}/data/x.tar", tmp_path / "one")
    assert content_of(tmp_path / "one") == {"train/x.tar": b"x"}
    bring(cloud.url, tmp_path / "all")
    assert content_of(tmp_path / "all") == {"train/results/data/x.tar": b"x"}


def test_shards_alone_are_fetched_and_all_of_them(cloud: Cloud, tmp_path: Path) -> None:
    for number in range(20):
        cloud.put(f"d/t-{number}.tar", b"%d" % number)
    cloud.put("d/other", b"much")
    for count in (3, 20):  # few are looked for by name, many in the list
        bring(f"{cloud.url}/d/t-{{0..{count - 1}}}.tar", tmp_path / str(count))
        files = {f"train/t-{number}.tar": b"%d" % number for number in range(count)}
        assert content_of(tmp_path / str(count)) == files
    [missing] = bring(f"{cloud.url}/d/t-{{18..22}}.tar", tmp_path / "missing").findings
    assert missing.is_error
    assert "3 of 5 files do not exist: 't-20.tar', 't-21.tar', 't-22.tar'" in missing.message
    assert content_of(tmp_path / "missing") == {}


def test_names_of_anybody_stay_inside(cloud: Cloud, tmp_path: Path) -> None:
    for name in HOSTILE:
        cloud.put(f"data/{name}", b"x")
    bring(f"{cloud.url}/data", tmp_path / "copy")
    assert sorted(content_of(tmp_path / "copy")) == sorted(
        f"train/data/{path}" for path in HOSTILE.values()
    )


def test_nothing_there_is_said(cloud: Cloud, tmp_path: Path) -> None:
    cloud.put("data-other", b"x")
    with pytest.raises(RsctlError, match=f"{cloud.url}/data does not exist") as caught:
        bring(f"{cloud.url}/data", tmp_path)
    assert caught.value.exit_code is ExitCode.REFUSED


def test_local_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "data/sub").mkdir(parents=True)
    (tmp_path / "data/a").write_bytes(b"a")
    (tmp_path / "data/sub/b").write_bytes(b"b")
    bring(str(tmp_path / "data"), tmp_path / "folder")
    assert content_of(tmp_path / "folder") == {"train/data/a": b"a", "train/data/sub/b": b"b"}
    bring(str(tmp_path / "data/a"), tmp_path / "file")
    assert content_of(tmp_path / "file") == {"train/a": b"a"}


def test_files_that_the_job_names_may_be_links_out_of_their_folder(tmp_path: Path) -> None:
    """As in a folder of links to a store, which is larger than the disk that has the job."""
    (tmp_path / "store").mkdir()
    (tmp_path / "data").mkdir()
    for number in range(20):
        (tmp_path / f"store/{number}").write_bytes(b"%d" % number)
        (tmp_path / f"data/t-{number}.tar").symlink_to(f"../store/{number}")
    (tmp_path / "data/folder").symlink_to("/usr")
    bring(str(tmp_path / "data/t-1.tar"), tmp_path / "one")
    assert content_of(tmp_path / "one") == {"train/t-1.tar": b"1"}
    for count in (3, 20):
        bring(str(tmp_path / f"data/t-{{0..{count - 1}}}.tar"), tmp_path / str(count))
        files = {f"train/t-{number}.tar": b"%d" % number for number in range(count)}
        assert content_of(tmp_path / str(count)) == files


def test_a_single_file_is_copied_to_a_folder_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a b%#?.bin").write_bytes(b"a")
    bring(str(tmp_path / "a b%#?.bin"), tmp_path / "home")
    assert content_of(tmp_path / "home") == {"train/a b%#?.bin": b"a"}


def test_a_single_file_that_was_removed_meanwhile(tmp_path: Path) -> None:
    [finding] = bring(str(tmp_path / "gone"), tmp_path / "copy").findings
    assert finding.is_error
    assert "1 of 1 files do not exist: 'gone'" in finding.message
