"""A run's results on a login node, which is this machine's shell here, and in other places."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.storage import ObjectChanged, StoredObject
from rsctl.findings import RsctlError
from rsctl.runs.fetch.sources import FolderSource
from rsctl.targets.slurm.results import HiddenSource, LoginNodeSource, result_source
from rsctl.targets.slurm.target import TARGET

CONNECTION = "ssh://login1"


def run_here(program: str) -> subprocess.CompletedProcess[bytes]:
    """As `ssh HOST sh -s` would run it."""
    return subprocess.run(["sh", "-s"], input=program.encode(), capture_output=True)


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    folder = tmp_path / "the outputs"
    (folder / "a b").mkdir(parents=True)
    (folder / "a b" / "$big").write_bytes(b"x" * 1000)
    (folder / "-empty").touch()
    return folder


def source(folder: Path) -> LoginNodeSource:
    return LoginNodeSource(run_here, CONNECTION, str(folder))


def sizes(found: LoginNodeSource) -> dict[str, int]:
    """The files with their sizes."""
    return {each.name: each.size for each in found.files()}


def test_files_and_links(outputs: Path, tmp_path: Path) -> None:
    """A link to a file is that file, and one to a folder is a link; others are left out."""
    (tmp_path / "secret").touch()
    (outputs / "last").symlink_to("a b/$big")
    (outputs / "folder").symlink_to("a b")
    (outputs / "elsewhere").symlink_to(tmp_path / "secret")
    (outputs / "broken").symlink_to("nothing")
    found = source(outputs)
    assert sizes(found) == {"a b/$big": 1000, "-empty": 0, "last": 1000}
    assert found.links == {"folder": "a b"}
    assert sorted(finding.message for finding in found.findings) == [
        f"{name!r} is skipped: it is neither a file nor a link to a file in this folder"
        for name in ("broken", "elsewhere")
    ]
    [last] = [each for each in found.files() if each.name == "last"]
    assert b"".join(found.stream(last, 990)) == b"x" * 10


def test_a_name_that_is_not_text_is_left_out(outputs: Path) -> None:
    (outputs / "a b" / "\udcff").touch()
    found = source(outputs)
    assert "-empty" in sizes(found)
    [finding] = found.findings
    assert finding.message == "'a b/\\\\xff' is skipped: its name is not UTF-8"


def test_a_folder_that_does_not_exist_has_no_files(tmp_path: Path) -> None:
    found = source(tmp_path / "none")
    assert (sizes(found), found.findings) == ({}, [])


def test_a_file_that_changes_is_not_mixed(outputs: Path) -> None:
    """What is read is of the version that was listed."""
    found = source(outputs)
    name = "a b/$big"
    listed = {each.name: each for each in found.files()}[name]
    assert found.find(name) == listed
    assert b"".join(found.stream(listed, 0)) == b"x" * 1000
    (outputs / name).write_bytes(b"y" * 1000)
    with pytest.raises(ObjectChanged):
        list(found.stream(listed, 0))
    (outputs / name).unlink()
    assert found.find(name) is None


def test_a_file_that_cannot_be_read(outputs: Path) -> None:
    def failing(program: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess([], 1, b"", b"tail: x: Permission denied\n")

    found = LoginNodeSource(failing, CONNECTION, "/shared/outputs")
    with pytest.raises(RsctlError) as caught:
        list(found.stream(StoredObject("x", 5, "1-5-2"), 0))
    [finding] = caught.value.findings
    assert finding.message == (
        "cannot read x of ssh://login1/shared/outputs: tail: x: Permission denied"
    )
    assert list(found.files()) == []
    [listed] = found.findings
    assert listed.message == ("cannot list ssh://login1/shared/outputs: tail: x: Permission denied")


@pytest.mark.parametrize(
    ("request_of_plan", "kind"),
    [
        ({"shared": "{here}"}, FolderSource),
        ({"shared": "/no/such", "connection": "local"}, FolderSource),
        ({"shared": "/no/such", "connection": CONNECTION}, LoginNodeSource),
        ({"shared": "{here}", "connection": CONNECTION}, FolderSource),
        ({"folder": "{here}/t-1", "connection": "http://here:6820"}, FolderSource),
        ({"shared": "/no/such", "connection": "http://here:6820"}, HiddenSource),
    ],
)
def test_where_results_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_of_plan: dict[str, str], kind: type
) -> None:
    """Here if this machine sees the run's folder, otherwise by ssh."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/gone")
    (tmp_path / "t-1").mkdir()
    request: dict[str, Any] = {
        name: value.format(here=tmp_path) for name, value in request_of_plan.items()
    }
    location = f"{request.get('shared', tmp_path)}/t-1/outputs"
    found = result_source("t-1", {"request": request}, location, Endpoints())
    assert type(found) is kind
    if kind is HiddenSource:
        with pytest.raises(RsctlError) as caught:
            list(found.files())
        [finding] = caught.value.findings
        assert finding.message == (
            "cannot read /no/such/t-1/outputs: http://here:6820 gives no access to files, and this "
            "machine does not see /no/such/t-1"
        )
        assert finding.remedy == (
            "mount /no/such on this machine, or copy the files from a login node, such as `scp -r "
            "LOGIN-NODE:/no/such/t-1/outputs .`"
        )


def test_the_outputs_of_a_job_that_was_submitted_elsewhere() -> None:
    """Its request is known by its URL, and its variables are not."""
    plan = {"request": {"connection": "local", "folder": "/shared/me/t-1"}}
    assert TARGET.results(plan) == {"outputs": "/shared/me/t-1/outputs"}
    assert TARGET.results({}) == {}
