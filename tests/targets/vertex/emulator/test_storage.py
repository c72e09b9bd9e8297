"""Buckets that are folders: what is uploaded, containers find, and what they write, clients."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from rsctl.targets.vertex.emulator import VertexEmulator
from tests.targets.vertex.emulator.conftest import Project, error


def upload(project: Project, name: str, content: bytes) -> int:
    place = f"{project.emulator.url}/upload/storage/v1/b/staging/o"
    opened = project.session.post(place, params={"uploadType": "resumable", "name": name})
    assert opened.status_code == 200
    done = project.session.put(
        opened.headers["Location"],
        data=content,
        headers={"Content-Range": f"bytes 0-{len(content) - 1}/{len(content)}"},
    )
    return done.status_code


def test_an_upload_is_a_file_and_a_file_an_object(project: Project, tmp_path: Path) -> None:
    assert upload(project, "a/b.txt", b"hello") == 200
    bucket = tmp_path / "gs" / "staging"
    assert (bucket / "a" / "b.txt").read_bytes() == b"hello"
    (bucket / "out").mkdir()
    (bucket / "out" / "model").write_bytes(b"weights")
    place = f"{project.emulator.url}/storage/v1/b/staging"
    assert project.session.get(f"{place}/o/out%2Fmodel?alt=media").content == b"weights"
    shown = project.session.get(f"{place}/o/out%2Fmodel").json()
    assert (shown["name"], shown["size"]) == ("out/model", "7")
    listed = project.session.get(f"{place}/o", params={"prefix": "out/"}).json()
    assert [item["name"] for item in listed["items"]] == ["out/model"]
    assert project.session.get(place).json()["name"] == "staging"
    assert error(project.session.get(place.replace("staging", "none")))[0] == 404


def test_a_folder_that_users_make_is_a_bucket(project: Project, tmp_path: Path) -> None:
    (tmp_path / "gs" / "mine").mkdir()
    (tmp_path / "gs" / "mine" / "x").write_bytes(b"1")
    place = f"{project.emulator.url}/storage/v1/b/mine/o/x?alt=media"
    assert project.session.get(place).content == b"1"


@pytest.mark.parametrize("name", ["../../escape", "a/../../../escape", "a//b", "dir/", ".."])
def test_names_that_are_no_files_are_refused(project: Project, tmp_path: Path, name: str) -> None:
    assert upload(project, name, b"x") == 400
    assert list(tmp_path.rglob("escape")) == []


def test_links_that_a_container_makes_lead_nowhere(project: Project, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    bucket = tmp_path / "gs" / "staging"
    (bucket / "link").symlink_to(tmp_path / "secret")
    (bucket / "up").symlink_to(tmp_path)
    place = f"{project.emulator.url}/storage/v1/b/staging/o"
    assert project.session.get(f"{place}/link?alt=media").status_code == 404
    assert project.session.get(f"{place}/up%2Fsecret?alt=media").status_code == 404
    assert "items" not in project.session.get(place).json()
    assert upload(project, "up/new", b"x") == 400


def test_buckets_are_open_to_containers_and_closed_to_other_users(
    project: Project, tmp_path: Path
) -> None:
    def mode(place: Path) -> int:
        return stat.S_IMODE(place.stat().st_mode)

    assert isinstance(project.emulator, VertexEmulator)
    assert (mode(tmp_path / "gs"), mode(tmp_path / "gs" / "staging")) == (0o700, 0o777)
