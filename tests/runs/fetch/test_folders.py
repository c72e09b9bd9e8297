"""What a run left in folders of this machine: names of any bytes, and links to folders."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from rsctl.clients.retries import RetryPolicy
from rsctl.findings import RsctlError, error
from rsctl.runs.fetch.fetch import Fetched, FetchSelection, fetch
from rsctl.runs.fetch.locations import ResultLocation
from rsctl.runs.fetch.sources import FolderSource


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "checkpoints"
    for step in (400, 500):
        (folder / f"step-{step}").mkdir(parents=True)
        (folder / f"step-{step}" / "model.pt").write_text(str(step))
    (folder / "latest").symlink_to("step-500")
    return folder


def get(source: Path, home: Path, *include: str) -> Fetched:
    location = ResultLocation("checkpoints", "checkpoints", FolderSource(source))
    return fetch("job-aaaaaa", [location], home, FetchSelection(include=include), RetryPolicy())


def listing(folder: Path) -> dict[str, str]:
    """The content of each file, and where each link leads."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.relative_to(folder)).decode(errors="backslashreplace")
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file() and name != ".rsctl-get":
            found[name] = path.read_text()
    return found


STEPS = {"checkpoints/step-400/model.pt": "400", "checkpoints/step-500/model.pt": "500"}


def test_names_of_any_bytes_come_every_time(source: Path, tmp_path: Path) -> None:
    for name in (b"caf\xe9.txt", b"\xff\xfe", "caf\u00e9.txt".encode()):
        (source / os.fsdecode(name)).write_bytes(name)
    (source / os.fsdecode(b"step-500/\xe9t\xe9")).mkdir()
    (source / os.fsdecode(b"step-500/\xe9t\xe9/a")).write_text("a")
    (source / os.fsdecode(b"link\xe9")).symlink_to(os.fsdecode(b"step-500/\xe9t\xe9"))
    (source / os.fsdecode(b"broken\xe9")).symlink_to("nowhere")
    home = tmp_path / os.fsdecode(b"home\xe9")
    first, second = get(source, home), get(source, home)
    assert {file.state for file in first.files} == {"fetched"}
    assert {file.state for file in second.files} == {"unchanged"}
    paths = {file.path for file in first.files}
    assert paths == {file.path for file in second.files}
    assert paths == {
        *STEPS,
        *("checkpoints/caf%E9.txt", "checkpoints/%FF%FE", "checkpoints/caf\u00e9.txt"),
        *("checkpoints/step-500/%E9t%E9/a", "checkpoints/link%E9", "checkpoints/latest"),
    }
    assert (home / "checkpoints/caf%E9.txt").read_bytes() == b"caf\xe9.txt"
    assert (home / "checkpoints/link%E9/a").read_text() == "a"
    assert msgspec.json.encode([first.directory, first.files]).decode()
    assert {finding.code for finding in first.findings} == {"renamed", "left-out"}
    assert all(str(finding).encode() for finding in first.findings)


def test_links_to_folders_inside_are_kept(source: Path, tmp_path: Path) -> None:
    (source / "step-400" / "next").symlink_to("../latest")
    (source / "absolute").symlink_to(source / "step-400")
    (source / "best.pt").symlink_to("latest/model.pt")
    fetched = get(source, tmp_path / "home")
    assert fetched.findings == []
    assert listing(tmp_path / "home") == {
        **STEPS,
        "checkpoints/absolute": "-> step-400",
        "checkpoints/best.pt": "500",
        "checkpoints/latest": "-> step-500",
        "checkpoints/step-400/next": "-> ../step-500",
    }
    assert {file.path: file.link for file in fetched.files if file.link} == {
        "checkpoints/absolute": "checkpoints/step-400",
        "checkpoints/latest": "checkpoints/step-500",
        "checkpoints/step-400/next": "checkpoints/step-500",
    }


def test_a_link_that_leads_elsewhere_later_is_updated(source: Path, tmp_path: Path) -> None:
    get(source, tmp_path / "home")
    (source / "latest").unlink()
    (source / "latest").symlink_to("step-400")
    fetched = get(source, tmp_path / "home")
    assert {f.path: f.state for f in fetched.files} == {
        **dict.fromkeys(STEPS, "unchanged"),
        "checkpoints/latest": "fetched",
    }
    assert listing(tmp_path / "home")["checkpoints/latest"] == "-> step-400"


def test_links_that_lead_out_or_to_nothing_are_left_out(source: Path, tmp_path: Path) -> None:
    (tmp_path / "run" / "secret").mkdir()
    (tmp_path / "run" / "secret" / "key").write_text("key")
    (source / "empty").mkdir()
    (source / "out").symlink_to("../secret")
    (source / "through").symlink_to("out")
    (source / "loop").symlink_to("loop")
    for number in range(4):
        (source / f"to-empty-{number}").symlink_to("empty")
    fetched = get(source, tmp_path / "home")
    assert listing(tmp_path / "home") == {**STEPS, "checkpoints/latest": "-> step-500"}
    messages = sorted(finding.message for finding in fetched.findings)
    assert messages == sorted(
        [
            *(
                f"'{name}' is skipped: it is neither a file nor a link to a file in this folder"
                for name in ("loop", "out", "through")
            ),
            f"{source}: 'checkpoints/to-empty-0', 'checkpoints/to-empty-1', "
            "'checkpoints/to-empty-2' and 1 more skipped: links to folders without files",
        ]
    )


def test_a_file_is_chosen_by_its_path_through_a_link(source: Path, tmp_path: Path) -> None:
    get(source, tmp_path / "home", "checkpoints/latest/*")
    assert listing(tmp_path / "home") == {
        "checkpoints/latest": "-> step-500",
        "checkpoints/step-500/model.pt": "500",
    }


def test_what_is_in_the_place_of_a_link_stays(source: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "checkpoints" / "latest").mkdir(parents=True)
    fetched = get(source, tmp_path / "home")
    [finding] = fetched.findings
    assert (finding.code, finding.message) == (
        "destination",
        "cannot write checkpoints/latest: File exists",
    )
    assert listing(tmp_path / "home") == STEPS
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "other" / "checkpoints").mkdir(parents=True)
    (tmp_path / "other" / "checkpoints" / "step-400").symlink_to(tmp_path / "elsewhere")
    fetched = get(source, tmp_path / "other")
    assert [finding.code for finding in fetched.findings] == ["destination"]
    assert [*(tmp_path / "elsewhere").iterdir()] == []


def test_a_folder_that_is_its_own_destination(source: Path) -> None:
    with pytest.raises(RsctlError, match="which would be copied into it"):
        get(source, source / "latest" / "home")


def test_a_folder_has_the_results_of_one_run(source: Path, tmp_path: Path) -> None:
    get(source, tmp_path / "here")
    location = ResultLocation("checkpoints", "checkpoints", FolderSource(source))
    with pytest.raises(RsctlError) as raised:
        fetch("job-bbbbbb", [location], tmp_path / "here", FetchSelection(), RetryPolicy())
    message = f"{tmp_path / 'here'} already has the results of job-aaaaaa"
    assert raised.value.findings == (error("destination", message, "use another folder"),)
