"""The labels of an image say where it comes from and nothing that is secret."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rsctl.images.labels import make_labels

from .conftest import ReadJob

OCI = "org.opencontainers.image."


DATE = "2026-01-02T03:04:05Z"


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always"]
    env = {**os.environ, "GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
    subprocess.run(["git", *identity, *arguments], cwd=folder, env=env, check=True)


def make_repository(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "README").write_text("one\n")
    (folder / ".gitignore").write_text("job.yaml\n")
    git(folder, "init", "-q", "-b", "main")
    if not (folder / "train.py").exists():  # the job's own folder has one, not committed
        (folder / "train.py").touch()
        git(folder, "add", "train.py")
    git(folder, "add", "README", ".gitignore")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "remote", "add", "origin", "https://me:s3cret@example.com/a/b.git")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path)


def revision(job: ReadJob) -> str:
    return make_labels(job("base: base"))[f"{OCI}revision"]


def test_the_labels_of_a_commit(job: ReadJob, repository: Path) -> None:
    (repository / ".git" / "info" / "exclude").write_text("*\n")
    labels = make_labels(job("base: base"))
    assert len(labels.pop(f"{OCI}revision")) == 40
    assert len(labels.pop("dev.rsctl.spec")) == 64
    assert labels == {
        f"{OCI}title": "job",
        f"{OCI}base.name": "base",
        f"{OCI}created": "2026-01-02T03:04:05Z",
        f"{OCI}source": "https://example.com/a/b.git",
    }


def test_changes_that_are_not_committed_show(job: ReadJob, repository: Path) -> None:
    assert revision(job).endswith("-dirty")


def test_the_repository_names_no_program_to_run(
    job: ReadJob, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    traces = tmp_path_factory.mktemp("traces")
    program = tmp_path_factory.mktemp("program") / "program"
    program.write_text(f'#!/bin/sh\ntouch {traces}/"$1$$"\ncat\n')
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=own diff=own\n")
    git(repository, "add", ".gitattributes")
    git(repository, "commit", "-q", "-m", "two")
    sign(repository)
    for name, argument in {
        "log.showSignature": "true",
        "gpg.program": f"{program}",
        "gpg.ssh.program": f"{program}",
        "core.fsmonitor": f"{program} fsmonitor",
        "core.hooksPath": f"{program.parent}",
        "core.pager": f"{program} pager",
        "pager.show": f"{program} pager",
        "core.sshCommand": f"{program} ssh",
        "filter.own.clean": f"{program} clean",
        "filter.own.smudge": f"{program} smudge",
        "filter.own.process": f"{program} process",
        "diff.external": f"{program} diff",
        "diff.own.textconv": f"{program} textconv",
        "diff.own.command": f"{program} command",
        "credential.helper": f"!{program} credential",
        "core.alternateRefsCommand": f"{program} refs",
        "uploadpack.packObjectsHook": f"{program} pack",
        "submodule.recurse": "true",
    }.items():
        git(repository, "config", name, argument)
    hook = program.parent / "post-index-change"
    hook.symlink_to(program)
    os.utime(repository / "README", (0, 0))  # git must look into it to know whether it changed
    assert len(revision(job).removesuffix("-dirty")) == 40
    assert [path.name for path in traces.iterdir()] == []


def sign(repository: Path) -> None:
    """Make a commit that claims to be signed, which git verifies by running a program."""
    made = subprocess.run(
        ["git", "cat-file", "commit", "HEAD"], cwd=repository, capture_output=True, check=True
    ).stdout
    head, _, message = made.partition(b"\n\n")
    signature = b"\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    done = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=repository,
        input=head + signature + b"\n\n" + message,
        capture_output=True,
        check=True,
    )
    git(repository, "update-ref", "HEAD", done.stdout.decode().strip())


def test_a_folder_of_a_repository_has_its_labels(
    job: ReadJob, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = make_repository(tmp_path_factory.mktemp("top"))
    git(top, "pack-refs", "--all")
    folder = top / "job"
    folder.mkdir()
    (folder / "train.py").touch()
    git(top, "add", "job")
    git(top, "commit", "-q", "-m", "two")
    assert not revision_of(job, folder).endswith("-dirty")
    (top / "README").write_text("other\n")  # beside the folder
    assert not revision_of(job, folder).endswith("-dirty")
    (folder / "train.py").write_text("1\n")
    assert revision_of(job, folder).endswith("-dirty")


def revision_of(job: ReadJob, folder: Path) -> str:
    return make_labels(job("base: base", f"image.source={folder}"))[f"{OCI}revision"]


def test_an_object_that_replaces_the_commit_on_one_machine_does_not_count(
    job: ReadJob, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = make_labels(job("base: base"))
    git(repository, "checkout", "-q", "--orphan", "other")
    monkeypatch.setattr(f"{__name__}.DATE", "2027-01-02T03:04:05Z")
    git(repository, "commit", "-q", "-m", "other")
    git(repository, "checkout", "-q", "main")
    git(repository, "replace", "main", "other")
    assert make_labels(job("base: base")) == before


def test_a_linked_worktree_has_its_own_revision(
    job: ReadJob, tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = make_repository(tmp_path_factory.mktemp("top"))
    tree = tmp_path_factory.mktemp("trees") / "tree"
    git(top, "worktree", "add", "-q", "-b", "other", str(tree))
    (tree / "README").write_text("two\n")
    git(tree, "commit", "-q", "-a", "-m", "two")
    one, two = revision_of(job, top), revision_of(job, tree)
    assert len(one) == len(two) == 40
    assert one != two


def test_a_change_inside_a_submodule_shows(
    job: ReadJob, tmp_path_factory: pytest.TempPathFactory
) -> None:
    inner = make_repository(tmp_path_factory.mktemp("inner"))
    top = make_repository(tmp_path_factory.mktemp("top"))
    git(top, "submodule", "--quiet", "add", str(inner), "inner")
    git(top, "commit", "-q", "-m", "two")
    assert not revision_of(job, top).endswith("-dirty")
    (top / "inner" / "README").write_text("changed\n")
    assert revision_of(job, top).endswith("-dirty")


def test_a_split_index_is_read(job: ReadJob, tmp_path_factory: pytest.TempPathFactory) -> None:
    top = make_repository(tmp_path_factory.mktemp("top"))
    git(top, "update-index", "--split-index")
    assert not revision_of(job, top).endswith("-dirty")


def test_a_broken_repository_gives_fewer_labels(job: ReadJob, repository: Path) -> None:
    (repository / ".git" / "HEAD").unlink()
    os.mkfifo(repository / ".git" / "HEAD")
    assert f"{OCI}revision" not in make_labels(job("base: base"))


def test_without_git_there_are_fewer(job: ReadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert make_labels(job("base: base")).keys() == {
        f"{OCI}title",
        f"{OCI}base.name",
        "dev.rsctl.spec",
    }


def test_the_spec_hash_follows_the_spec_and_not_the_secret(job: ReadJob) -> None:
    def spec(*settings: str) -> str:
        return make_labels(job("base: base", *settings))["dev.rsctl.spec"]

    assert spec("run.env.TOKEN=a") == spec("run.env.TOKEN=b") == spec()
    assert spec("workers.count=2") != spec()


def test_a_submodule_that_is_not_checked_out_has_no_changes(
    job: ReadJob, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    inner = make_repository(tmp_path_factory.mktemp("parent") / "inner")
    git(repository, "submodule", "--quiet", "add", str(inner), "lib")
    git(repository, "add", "--all")
    git(repository, "commit", "-q", "-m", "two")
    assert not revision(job).endswith("-dirty")
    git(repository, "submodule", "--quiet", "deinit", "lib")
    assert len(revision(job)) == 40


def test_a_commit_whose_branch_is_packed(job: ReadJob, repository: Path) -> None:
    (repository / ".git" / "info" / "exclude").write_text("*\n")
    loose = revision(job)
    git(repository, "pack-refs", "--all", "--prune")
    assert revision(job) == loose


def test_variables_of_git(job: ReadJob, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of its configuration count, such as safe.directory; others name another repository."""
    (repository / ".git" / "info" / "exclude").write_text("*\n")
    (repository / "README").chmod(0o755)
    assert revision(job).endswith("-dirty")
    settings = {"COUNT": "1", "KEY_0": "core.fileMode", "VALUE_0": "false"}
    for name, value in settings.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    assert len(revision(job)) == 40
