"""A baseline of git:REF:PATH is read from a repository that may come from an attacker."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rsctl.bench.baseline import make_baseline, read_baseline, write_baseline
from rsctl.findings import ExitCode, RsctlError

from .test_baseline import CELL, measured

PLACE = "git:main:bench/baseline.json"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True
    )
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose main has a baseline."""
    folder = tmp_path / "repository"
    folder.mkdir()
    write_baseline(make_baseline(measured()), str(folder / "bench" / "baseline.json"))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    return folder


def refused(repository: Path, place: str = PLACE, exit_code: ExitCode = ExitCode.USAGE) -> str:
    with pytest.raises(RsctlError) as caught:
        read_baseline(place, str(repository))
    assert caught.value.exit_code is exit_code
    assert caught.value.findings[0].code == "baseline"
    return caught.value.findings[0].message


@pytest.mark.parametrize("is_object_there", [True, False])
def test_the_repository_names_no_program_to_run(
    repository: Path, tmp_path: Path, is_object_there: bool
) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ntouch {traces}/"$1$$"\ncat\n')
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=own diff=own\n")
    for name, value in {
        "extensions.partialClone": "origin",
        "remote.origin.url": "ssh://nowhere.invalid/x",
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": f"{program} uploadpack",
        "remote.other.url": str(repository),
        "remote.other.promisor": "true",
        "remote.other.uploadpack": f"{program} uploadpack",
        "core.repositoryFormatVersion": "1",
        "core.sshCommand": f"{program} ssh",
        "core.fsmonitor": f"{program} fsmonitor",
        "core.hooksPath": str(tmp_path),
        "core.pager": f"{program} pager",
        "pager.show": f"{program} pager",
        "pager.cat-file": f"{program} pager",
        "core.gitProxy": f"{program} proxy",
        "filter.own.smudge": f"{program} smudge",
        "diff.own.textconv": f"{program} textconv",
        "credential.helper": f"!{program} credential",
    }.items():
        git(repository, "config", name, value)
    if not is_object_there:
        name = git(repository, "rev-parse", "main:bench/baseline.json")
        (repository / ".git" / "objects" / name[:2] / name[2:]).unlink()
        message = refused(repository)
        assert message.startswith(
            f"cannot read {PLACE}: the repository does not have the file's content"
        )
    else:
        assert read_baseline(PLACE, str(repository)).find("throughput", CELL)
    assert [path.name for path in traces.iterdir()] == []


def test_the_written_file_is_in_the_folder_that_has_the_repository(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "config", "core.worktree", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    written = write_baseline(make_baseline(measured()), PLACE, str(repository / "bench"))
    assert written == str(repository.resolve() / "bench" / "baseline.json")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("linked", ["bench", "bench/baseline.json"])
def test_no_link_of_the_working_tree_is_followed(
    repository: Path, tmp_path: Path, linked: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (repository / linked).rename(elsewhere)
    (repository / linked).symlink_to(elsewhere)
    before = sorted(path.stat().st_mtime_ns for path in [elsewhere, *elsewhere.glob("*")])
    with pytest.raises(RsctlError) as caught:
        write_baseline(make_baseline(measured()), PLACE, str(repository))
    assert caught.value.findings[0].message == (
        f"cannot write {PLACE}: {linked} of the working tree is a link"
    )
    assert sorted(p.stat().st_mtime_ns for p in [elsewhere, *elsewhere.glob("*")]) == before


@pytest.mark.parametrize(
    "name",
    [
        "objects/info/alternates",
        "objects/info/commit-graph",
        "objects/pack/multi-pack-index",
        "objects/pack/pack-1234.idx",
        "refs/tags/main",
        "refs/heads/main",
        "logs/refs/heads/main",
    ],
)
def test_a_pipe_in_the_repository_is_not_waited_for(repository: Path, name: str) -> None:
    pipe = repository / ".git" / name
    pipe.unlink(missing_ok=True)
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    assert refused(repository) == (
        f"cannot read {PLACE}: the repository's {name} is neither a file nor a folder"
    )


def test_a_pipe_in_a_repository_whose_objects_are_borrowed(
    repository: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(repository), "copy")
    assert read_baseline(PLACE, str(tmp_path / "copy")).find("throughput", CELL)
    os.mkfifo(repository / ".git" / "objects" / "info" / "alternates")
    assert "info/alternates is neither a file nor a folder" in refused(tmp_path / "copy")


@pytest.mark.parametrize("name", ["packed-refs", "config", "shallow", "commondir", "info"])
def test_another_pipe_counts_as_nothing(repository: Path, name: str) -> None:
    place = repository / ".git" / name
    if place.is_dir():
        place.rename(place.with_suffix(".old"))
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    assert read_baseline(PLACE, str(repository)).find("throughput", CELL)


@pytest.mark.parametrize("name", ["HEAD", "refs", "objects"])
def test_a_pipe_where_git_needs_a_file(repository: Path, name: str) -> None:
    place = repository / ".git" / name
    place.rename(place.with_suffix(".old"))
    os.mkfifo(place)
    assert refused(repository).startswith(f"cannot read {PLACE}: ")


def test_a_pipe_as_a_baseline(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "baseline.json")
    assert refused(tmp_path, "baseline.json") == (
        "cannot read the baseline baseline.json: it is a pipe"
    )
    with pytest.raises(RsctlError, match=r"cannot write baseline\.json: it is a pipe"):
        write_baseline(make_baseline(measured()), "baseline.json", str(tmp_path))


def test_a_pipe_that_the_shell_has_opened_is_read(repository: Path) -> None:
    with subprocess.Popen(
        ["cat", str(repository / "bench" / "baseline.json")], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        found = read_baseline(f"/dev/fd/{writer.stdout.fileno()}", str(repository))
    assert found.find("throughput", CELL)


def test_a_file_in_git_that_is_too_large_is_not_read(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsctl.bench.baseline_files.LARGEST", 20)
    assert refused(repository) == f"cannot read {PLACE}: it is larger than 20 bytes"


@pytest.mark.parametrize(
    "place", ["git:HEAD:bench/baseline.json", "git:HEAD~1:bench/baseline.json"]
)
def test_a_worktree_and_a_commit_before(repository: Path, tmp_path: Path, place: str) -> None:
    git(repository, "commit", "-q", "--allow-empty", "-m", "two")
    git(repository, "worktree", "add", "-q", str(tmp_path / "second"))
    assert read_baseline(place, str(tmp_path / "second")).find("throughput", CELL)
    written = write_baseline(make_baseline(measured()), place, str(tmp_path / "second"))
    assert written == str(tmp_path.resolve() / "second" / "bench" / "baseline.json")


@pytest.mark.parametrize("ref", ["FETCH_HEAD", "origin/main", "@{upstream}", "@{u}~0", "HEAD@{0}"])
def test_what_a_ci_job_fetches(repository: Path, tmp_path: Path, ref: str) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", "copy")
    git(tmp_path / "copy", "fetch", "-q", "origin", "main")
    place = f"git:{ref}:bench/baseline.json"
    assert read_baseline(place, str(tmp_path / "copy")).find("throughput", CELL)


def test_a_file_that_the_ref_does_not_have_is_not_taken_for_a_missing_ref(
    repository: Path,
) -> None:
    (repository / "new.json").write_text("{}")
    missing = "correct the path, which starts at the top of the repository"
    other = "a shallow clone does not have other branches"
    for place, remedy in (
        ("git:main:bench/other.json", missing),
        ("git:main:new.json", missing),
        ("git:absent:bench/baseline.json", other),
        ("git:HEAD~9:bench/baseline.json", "a shallow clone does not have all commits"),
        (f"git:{'1234567890' * 4}:bench/baseline.json", "a shallow clone does not have all"),
    ):
        with pytest.raises(RsctlError) as caught:
            read_baseline(place, str(repository))
        assert str(caught.value.findings[0].remedy).startswith(remedy)
