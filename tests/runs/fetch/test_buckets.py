"""Results in Cloud Storage and S3, downloaded through the emulators."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import boto3
import pytest
from google.auth import default
from google.auth.transport.requests import AuthorizedSession

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import RsctlError
from rsctl.runs.fetch.directory import Directory
from rsctl.runs.fetch.fetch import Fetched, FetchSelection, fetch
from rsctl.runs.fetch.locations import locations_of
from rsctl.targets.managed.emulator.faults import Fault
from tests.kit.polling import wait_until
from tests.targets.managed.emulator.conftest import aws as aws
from tests.targets.managed.emulator.conftest import bare_environment as bare_environment
from tests.targets.managed.emulator.conftest import google as google

QUICK = RetryPolicy(tries=4, time_scale=0.0)
CHOICE = FetchSelection(kinds=frozenset({"outputs", "checkpoints", "artifacts"}))
HOSTILE = {
    "../../x": "%2E%2E/%2E%2E/x",
    "a//b": "a/%2F/b",
    "/abs": "%2F/abs",
    "sp ace+&%?#é": "sp ace+&%?#é",
    "control\x01\x1b[31m": "control%01%1B[31m",
    "file/below": "file/below",
    "Case": "Case",
    "case": "case",
}


class Cloud(NamedTuple):
    """An emulated bucket and how it is filled."""

    emulator: Any
    url: str
    put: Callable[[str, bytes], object]
    names: dict[str, str]
    """What faults call its operations: `get`, `list`."""

    def fetch(
        self, home: Path, results: dict[str, str], choice: FetchSelection = CHOICE
    ) -> Fetched:
        endpoints = Endpoints.of_environment()
        locations = locations_of("job-aaaaaa", results, endpoints, "us-east-1")
        return fetch("job-aaaaaa", locations, home, choice, QUICK)

    def outputs(self, home: Path, choice: FetchSelection = CHOICE) -> Fetched:
        return self.fetch(home, {"outputs": f"{self.url}/out"}, choice)

    @property
    def reads(self) -> int:
        return int(self.emulator.count(self.names["get"]))


@pytest.fixture(params=["gs", "s3"])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    if request.param == "s3":
        emulator = request.getfixturevalue("aws")
        client = boto3.session.Session().client("s3")
        client.create_bucket(Bucket="results")

        def put_s3(name: str, content: bytes) -> object:
            return client.put_object(Bucket="results", Key=name, Body=content)

        names = {"get": "s3.GetObject", "list": "s3.ListObjects"}
        return Cloud(emulator, "s3://results", put_s3, names)
    emulator = request.getfixturevalue("google")
    emulator.storage.make("results")
    credentials, _ = default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    session = AuthorizedSession(credentials)

    def put_gs(name: str, content: bytes) -> object:
        url = f"{emulator.url}/upload/storage/v1/b/results/o"
        answer = session.post(url, params={"uploadType": "media", "name": name}, data=content)
        assert answer.status_code == 200, answer.text
        return answer

    names = {"get": "storage.objects.get", "list": "storage.objects.list"}
    return Cloud(emulator, "gs://results", put_gs, names)


def content_of(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if not path.is_dir())
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in paths
        if path.name != ".rsctl-get"
    }


def test_all_comes_home_and_only_once(cloud: Cloud, tmp_path: Path) -> None:
    files = {f"d{i % 3}/{i}": os.urandom(i) for i in range(20)}
    for name, content in files.items():
        cloud.put(f"out/{name}", content)
    cloud.put("out/folder/", b"")
    cloud.put("out-other/1", b"not ours")
    fetched = cloud.outputs(tmp_path / "home")
    assert fetched.findings == []
    assert content_of(tmp_path / "home" / "outputs") == files
    assert {file.checksum for file in fetched.files if file.size} == {"md5"}
    reads = cloud.reads
    cloud.put("out/d0/0", b"changed")
    (tmp_path / "home" / "outputs" / "d1" / "1").unlink()
    (tmp_path / "home" / "outputs" / "d2" / "2").write_bytes(b"??")
    again = cloud.outputs(tmp_path / "home")
    new = [file.path for file in again.files if file.state == "fetched"]
    assert new == ["outputs/d0/0", "outputs/d1/1", "outputs/d2/2"]
    assert cloud.reads == reads + 3
    assert content_of(tmp_path / "home" / "outputs") == {**files, "d0/0": b"changed"}


def test_what_is_there_without_an_index_is_compared(cloud: Cloud, tmp_path: Path) -> None:
    cloud.put("out/a", b"same")
    cloud.put("out/b", b"size")
    folder = tmp_path / "home" / "outputs"
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"same")
    (folder / "b").write_bytes(b"SIZE")
    states = {file.path: file.state for file in cloud.outputs(tmp_path / "home").files}
    assert states == {"outputs/a": "unchanged", "outputs/b": "fetched"}
    assert (folder / "b").read_bytes() == b"size"


def test_hostile_names_stay_inside(cloud: Cloud, tmp_path: Path) -> None:
    for number, name in enumerate([*HOSTILE, "file"]):
        cloud.put(f"out/{name}", b"%d" % number)
    fetched = cloud.outputs(tmp_path / "home")
    there = content_of(tmp_path / "home" / "outputs")
    [beside] = [name for name in there if name.startswith("file~")]
    assert there.pop(beside) == b"%d" % len(HOSTILE)
    assert there == {path: b"%d" % number for number, path in enumerate(HOSTILE.values())}
    assert [finding.code for finding in fetched.findings] == ["renamed"]
    assert sorted(os.listdir(tmp_path)) == ["home"]
    again = cloud.outputs(tmp_path / "home")
    assert {file.state for file in again.files} == {"unchanged"}


def test_pages_of_lists(cloud: Cloud, tmp_path: Path) -> None:
    store = cloud.emulator.objects if cloud.url == "s3://results" else cloud.emulator.storage
    for number in range(1005):
        (store.folder / "results" / quote(f"out/{number:04}\x02", safe="")).touch()
    cloud.outputs(tmp_path / "home", FetchSelection(CHOICE.kinds, include=("100*",)))
    assert len(content_of(tmp_path / "home" / "outputs")) == 5
    assert cloud.emulator.count(cloud.names["list"]) == 2


def test_include_is_a_glob_on_the_path(cloud: Cloud, tmp_path: Path) -> None:
    for name in ("a.pt", "sub/b.pt", "sub/c.txt"):
        cloud.put(f"out/{name}", b"1")
    for number, (pattern, found) in enumerate(
        {"*.pt": ["a.pt", "sub/b.pt"], "outputs/sub/*": ["sub/b.pt", "sub/c.txt"]}.items()
    ):
        home = tmp_path / str(number)
        cloud.outputs(home, FetchSelection(CHOICE.kinds, include=(pattern,)))
        assert sorted(content_of(home / "outputs")) == found


def test_locations_within_others_come_once(cloud: Cloud, tmp_path: Path) -> None:
    cloud.put("out/a", b"1")
    cloud.put("out/checkpoints/b", b"2")
    cloud.put("out/checkpoints-2/c", b"3")
    results = {"outputs": f"{cloud.url}/out", "checkpoints": f"{cloud.url}/out/checkpoints"}
    cloud.fetch(tmp_path / "home", results)
    assert content_of(tmp_path / "home") == {
        "outputs/a": b"1",
        "checkpoints/b": b"2",
        "outputs/checkpoints-2/c": b"3",
    }


@pytest.mark.parametrize(
    "fault",
    [{"cut": "answer"}, {"status": 503, "code": "SlowDown"}, {"cut": "half"}],
    ids=["cut", "busy", "half"],
)
def test_a_cut_connection(cloud: Cloud, tmp_path: Path, fault: dict[str, Any]) -> None:
    content = os.urandom(3 << 20)
    cloud.put("out/a", content)
    for name in cloud.names.values():
        cloud.emulator.faults.add(Fault(name, times=2, **fault))
    fetched = cloud.outputs(tmp_path / "home")
    assert content_of(tmp_path / "home") == {"outputs/a": content}
    assert fetched.findings == []


def test_nobody_answers_any_more(cloud: Cloud, tmp_path: Path) -> None:
    cloud.put("out/a", os.urandom(1 << 20))
    cloud.emulator.faults.add(Fault(cloud.names["get"], times=1000, cut="half"))
    with pytest.raises(RsctlError) as caught:
        cloud.outputs(tmp_path / "home")
    assert caught.value.findings[0].code == "network"
    assert not (tmp_path / "home" / "outputs" / "a").exists()


def test_an_object_that_changes_meanwhile(cloud: Cloud, tmp_path: Path) -> None:
    """Half of the first version has come when it is replaced: no mixture is kept."""
    old, new = os.urandom(4 << 20), os.urandom(4 << 20)
    cloud.put("out/a", old)
    cloud.emulator.faults.add(Fault(cloud.names["get"], cut="half"))
    second = Fault(cloud.names["get"], delay=1.0)
    cloud.emulator.faults.add(second)
    done: list[Fetched] = []
    thread = threading.Thread(target=lambda: done.append(cloud.outputs(tmp_path / "home")))
    thread.start()
    wait_until(lambda: second.times == 0)
    cloud.put("out/a", new)
    thread.join()
    assert content_of(tmp_path / "home") == {"outputs/a": new}
    assert done[0].findings == []


def test_content_that_arrives_damaged(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.put("out/a", b"right")
    cloud.put("out/b", b"right")
    monkeypatch.setattr("rsctl.runs.fetch.digests.Digest.fits", False)
    fetched = cloud.outputs(tmp_path / "home")
    assert [finding.code for finding in fetched.findings] == ["checksum", "checksum"]
    assert content_of(tmp_path / "home") == {}


KILLED = """
import os, signal, sys
from pathlib import Path
from rsctl.runs.fetch import downloads
real, left = downloads.write_all, [int(sys.argv[2])]
def write(file, block, path):
    real(file, block, path)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
downloads.write_all = write
from tests.runs.fetch.test_buckets import CHOICE, QUICK
from rsctl.clients.endpoints import Endpoints
from rsctl.runs.fetch.fetch import fetch
from rsctl.runs.fetch.locations import locations_of
endpoints = Endpoints.of_environment()
locations = locations_of("job-aaaaaa", {"outputs": sys.argv[3]}, endpoints, "us-east-1")
fetch("job-aaaaaa", locations, Path(sys.argv[1]), CHOICE, QUICK)
"""


def test_a_kill_half_way(cloud: Cloud, tmp_path: Path) -> None:
    files = {"big": os.urandom(9 << 20), "small": b"1"}
    for name, content in files.items():
        cloud.put(f"out/{name}", content)
    home = tmp_path / "home"
    for blocks in (3, 3):
        arguments = [str(home), str(blocks), f"{cloud.url}/out"]
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, *arguments], cwd=Path(__file__).parents[3]
        )
        assert killed.returncode == -9
    assert not (home / "outputs" / "big").exists()
    parts = [path for path in (home / "outputs").iterdir() if path.name.endswith(".part")]
    assert max(part.stat().st_size for part in parts) >= 4 << 20  # the small one may have begun
    fetched = cloud.outputs(home)
    assert content_of(home / "outputs") == files
    assert fetched.findings == []


def test_a_part_of_an_older_version_is_not_continued(cloud: Cloud, tmp_path: Path) -> None:
    cloud.put("out/a", os.urandom(6 << 20))
    arguments = [str(tmp_path / "home"), "3", f"{cloud.url}/out"]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], cwd=Path(__file__).parents[3]
    )
    assert killed.returncode == -9
    new = os.urandom(6 << 20)
    cloud.put("out/a", new)
    cloud.outputs(tmp_path / "home")
    assert content_of(tmp_path / "home") == {"outputs/a": new}


def test_a_full_disk(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.put("out/a", bytes(1000))
    monkeypatch.setattr(Directory, "free", lambda _: 999)
    with pytest.raises(
        RsctlError, match="1,000 bytes remain to be downloaded, but only 999 are free"
    ):
        cloud.outputs(tmp_path / "home")
    assert content_of(tmp_path / "home") == {}


def test_an_archive_comes_unpacked_and_once(cloud: Cloud, tmp_path: Path) -> None:
    packed = io.BytesIO()
    files = {"model.pt": os.urandom(2 << 20), "sub/config": b"1"}
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    cloud.put("out/output/model.tar.gz", packed.getvalue())
    results = {
        "model": f"{cloud.url}/out/output/model.tar.gz",
        "outputs": f"{cloud.url}/out/output/output.tar.gz",
    }
    home = tmp_path / "home"
    fetched = cloud.fetch(home, results)
    assert fetched.findings == []
    assert content_of(home) == {f"artifacts/model/{name}": files[name] for name in files}
    reads = cloud.reads
    assert {file.state for file in cloud.fetch(home, results).files} == {"unchanged"}
    assert cloud.reads == reads
    (home / "artifacts" / "model" / "model.pt").unlink()
    cloud.fetch(home, results)
    assert content_of(home) == {f"artifacts/model/{name}": files[name] for name in files}


def test_a_folder_has_one_runs_results(cloud: Cloud, tmp_path: Path) -> None:
    cloud.outputs(tmp_path)
    endpoints = Endpoints.of_environment()
    locations = locations_of("other", {"outputs": f"{cloud.url}/out"}, endpoints, None)
    with pytest.raises(RsctlError, match="has the results of job-aaaaaa"):
        fetch("other", locations, tmp_path, CHOICE, QUICK)


def test_no_bucket(cloud: Cloud, tmp_path: Path) -> None:
    fetched = cloud.fetch(tmp_path, {"outputs": f"{cloud.url}none/x"})
    assert [finding.code for finding in fetched.findings] == ["bucket"]
    assert fetched.exit_code == 4


def test_what_is_stored_as_gzip_stays_so(google: Any, tmp_path: Path) -> None:
    """Cloud Storage would unpack it on its way, for a client that does not accept gzip."""
    seen: list[str] = []
    google.storage.make("results")
    google.storage.write("results", "out/a", b"\x1f\x8b" + b"x" * 100)
    real = google.storage._download

    def download(request: Any) -> Any:
        seen.append(request.headers.get("accept-encoding", ""))
        return real(request)

    google.storage._download = download
    endpoints = Endpoints.of_environment()
    locations = locations_of("r", {"outputs": "gs://results/out"}, endpoints, None)
    [file] = fetch("r", locations, tmp_path, CHOICE, QUICK).files
    assert (file.size, seen) == (102, ["gzip"])
    digest = hashlib.sha256((tmp_path / file.path).read_bytes()).hexdigest()
    assert digest == hashlib.sha256(b"\x1f\x8b" + b"x" * 100).hexdigest()
