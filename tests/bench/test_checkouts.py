"""A commit in a folder of its own, of a repository that may come from an attacker."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from rsctl.bench.checkouts import check_out, remove_checkout
from rsctl.bench.inputs import source_digest
from rsctl.findings import ExitCode, RsctlError
from rsctl.images.git_commit import commit_of
from rsctl.images.git_index import tracked_files
from rsctl.runs.home import home

from .test_git_files import git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("print(1)\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "empty").touch()
    (folder / "link").symlink_to("src/train.py")
    git(folder, "init", "-q", "-b", "main")
    commit(folder)
    return folder


def commit(folder: Path) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return git(folder, "rev-parse", "HEAD")


def files(folder: Path) -> dict[str, str]:
    """The files of a folder without `.git`: their content, or what they link to."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file() and not name.startswith(".git/"):
            found[name] = path.read_text()
    return found


FILES = {
    "empty": "",
    "link": "-> src/train.py",
    "run.sh": "#!/bin/sh\n",
    "src/train.py": "print(1)\n",
}


def refused(ref: str, folder: Path, exit_code: ExitCode = ExitCode.USAGE) -> str:
    with pytest.raises(RsctlError) as caught:
        check_out(ref, str(folder))
    assert caught.value.exit_code is exit_code
    return caught.value.findings[0].message


def test_the_files_of_a_commit(repository: Path) -> None:
    (repository / "src" / "train.py").write_text("print(2)\n")
    (repository / "untracked").touch()
    found = check_out("main", str(repository / "src"))
    name = git(repository, "rev-parse", "HEAD")
    assert (found.commit, found.top) == (name, repository)
    assert found.folder == home() / "checkouts" / name
    assert files(found.folder) == FILES
    assert os.access(found.folder / "run.sh", os.X_OK)
    assert tracked_files(found.folder) == set(FILES)
    known = commit_of(found.folder)
    assert known is not None
    assert (known.revision, known.is_changed) == (name, False)


def test_what_a_run_has_changed_is_written_again(repository: Path) -> None:
    folder = check_out("main", str(repository)).folder
    (folder / "src" / "train.py").write_text("changed\n")
    (folder / "run.sh").chmod(0o644)
    (folder / "empty").unlink()
    (folder / "link").unlink()
    (folder / "link").mkdir()
    (folder / "result.txt").write_text("kept\n")
    assert check_out("HEAD", str(repository)).folder == folder
    assert files(folder) == {**FILES, "result.txt": "kept\n"}
    assert os.access(folder / "run.sh", os.X_OK)


def test_a_killed_process_leaves_no_half(repository: Path) -> None:
    name = git(repository, "rev-parse", "HEAD")
    part = home() / "checkouts" / f"{name}.part"
    part.mkdir(parents=True)
    (part / "half").touch()
    assert files(check_out("main", str(repository)).folder) == FILES
    assert not part.exists()


def test_a_home_in_which_nothing_can_be_written(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as HOME=/, which a container of a CI system has for a user without an account."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("RSCTL_HOME", str(tmp_path / "file"))
    with pytest.raises(RsctlError) as refused:
        check_out("main", str(repository))
    assert refused.value.exit_code is ExitCode.ENVIRONMENT
    [finding] = refused.value.findings
    assert finding.remedy == "set RSCTL_HOME to a folder with free space that this user can write"


def test_a_git_that_was_killed_in_the_working_tree_is_in_no_way(repository: Path) -> None:
    (repository / ".git" / "index.lock").touch()
    made = check_out("main", str(repository))
    assert files(made.folder) == FILES
    assert git(made.folder, "status", "--porcelain") == ""


def test_several_processes_at_once(repository: Path) -> None:
    with ThreadPool(4) as pool:
        found = pool.map(lambda _: check_out("main", str(repository)), range(4))
    assert len({(each.commit, each.folder) for each in found}) == 1
    assert [each.is_new for each in found].count(True) == 1
    assert files(found[0].folder) == FILES


def test_no_program_of_the_repository_or_of_its_attributes_is_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ntouch {traces}/"$1$$"\ncat\n')
    program.chmod(0o755)
    (repository / ".gitattributes").write_text(
        "* filter=own ident export-subst\n*.sh export-ignore\n"
    )
    (repository / "empty").write_text("$Id$ $Format:%H$\n")
    commit(repository)
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(program.read_text())
    hook.chmod(0o755)
    for name in ("filter.own.smudge", "filter.own.process", "core.fsmonitor", "core.sshCommand"):
        git(repository, "config", name, f"{program} {name}")
    # The user's own configuration may have a filter, such as Git LFS; it may reach the network.
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "filter.own.smudge")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"{program} own")
    found = files(check_out("main", str(repository)).folder)
    assert found["empty"] == "$Id$ $Format:%H$\n"
    assert "run.sh" in found
    assert list(traces.iterdir()) == []


def raw_commit(folder: Path, *entries: tuple[str, str, str]) -> str:
    """A commit of a tree as no git would write it: entries of mode, name and object."""
    raw = b"".join(
        f"{mode} {name}".encode() + b"\0" + bytes.fromhex(about) for mode, name, about in entries
    )
    made = subprocess.run(
        ["git", "-C", str(folder), "hash-object", "-t", "tree", "-w", "--stdin", "--literally"],
        input=raw,
        check=True,
        capture_output=True,
    )
    return git(folder, "commit-tree", made.stdout.decode().strip(), "-m", "x")


def test_a_path_that_leaves_the_folder(repository: Path) -> None:
    blob = git(repository, "rev-parse", "HEAD:run.sh")
    name = raw_commit(repository, ("100644", "..", blob))
    assert "has a file with the path '..'" in refused(name, repository)


def test_a_link_is_not_followed_by_a_file_below_it(repository: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (repository / "target").symlink_to(outside)
    commit(repository)
    link, blob = (
        git(repository, "rev-parse", "HEAD:target"),
        git(repository, "rev-parse", "HEAD:run.sh"),
    )
    below = subprocess.run(
        ["git", "-C", str(repository), "mktree"],
        input=f"100644 blob {blob}\tx\n".encode(),
        check=True,
        capture_output=True,
    )
    inner = below.stdout.decode().strip()
    name = raw_commit(repository, ("120000", "a", link), ("40000", "a", inner))
    check_out(name, str(repository))
    assert list(outside.iterdir()) == []


def with_submodule(repository: Path, tmp_path: Path) -> str:
    """Add the submodule `lib`; its commit."""
    module = tmp_path / "module"
    module.mkdir()
    git(module, "init", "-q", "-b", "main")
    (module / "inner.py").write_text("inner\n")
    made = commit(module)
    git(repository, "submodule", "add", "-q", str(module), "lib")
    commit(repository)
    return made


def test_a_submodule_does_not_follow_a_link_of_its_name(repository: Path, tmp_path: Path) -> None:
    inner = with_submodule(repository, tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (repository / "target").symlink_to(outside)
    commit(repository)
    link = git(repository, "rev-parse", "HEAD:target")
    name = raw_commit(repository, ("120000", "lib", link), ("160000", "lib", inner))
    found = files(check_out(name, str(repository)).folder)
    assert (found, list(outside.iterdir())) == ({"lib/inner.py": "inner\n"}, [])


@pytest.mark.parametrize("target", ["../other", "lib"])
def test_a_submodule_is_not_one_to_which_a_link_of_the_working_tree_leads(
    repository: Path, tmp_path: Path, target: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    (other / "private.txt").write_text("private\n")
    (repository / "lib").symlink_to(target)
    name = raw_commit(repository, ("160000", "lib", commit(other)))
    assert files(check_out(name, str(repository)).folder) == {}


def test_the_remedy_for_a_submodule_without_its_commit_names_its_folder(
    repository: Path, tmp_path: Path
) -> None:
    with_submodule(repository, tmp_path)
    git(repository, "mv", "lib", "my lib")
    name = raw_commit(repository, ("160000", "my lib", "1" * 40))
    with pytest.raises(RsctlError, match="does not have its commit 111111111111") as caught:
        check_out(name, str(repository))
    folder = shlex.quote(str(repository / "my lib"))
    assert caught.value.findings[0].remedy == f"git -C {folder} fetch origin {'1' * 40}"


def test_what_a_run_has_changed_in_a_submodule_is_written_again(
    repository: Path, tmp_path: Path
) -> None:
    with_submodule(repository, tmp_path)
    folder = check_out("main", str(repository)).folder
    (folder / "lib" / "inner.py").write_text("changed\n")
    check_out("main", str(repository))
    assert (folder / "lib" / "inner.py").read_text() == "inner\n"


def test_a_folder_that_a_run_has_replaced_by_a_link_is_written_again(repository: Path) -> None:
    (repository / "src" / "other.py").write_text("other\n")
    commit(repository)
    folder = check_out("main", str(repository)).folder
    (folder / "src").rename(folder.parent / "moved")
    (folder / "src").symlink_to(folder.parent / "moved")
    (folder / "src" / "train.py").write_text("changed\n")
    check_out("main", str(repository))
    assert files(folder) == {**FILES, "src/other.py": "other\n"}
    assert not (folder / "src").is_symlink()


def test_names_that_a_command_line_would_misread(repository: Path) -> None:
    url = f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch {repository}/pwned"\n'
    names = ["-x", "--help", "a\nb", "a b", "\udcff", "x" * 250, "x.rsctl-part", "$(id)", "~"]
    for name in names:
        (repository / name).write_text("text\n")
    (repository / ".gitmodules").write_text(url)
    git(repository, "add", "-A")
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{head},x")
    git(repository, "commit", "-qm", "names")
    for _ in range(2):
        folder = check_out("HEAD", str(repository)).folder
        for name in names:
            assert (folder / name).read_text() == "text\n"
    assert not (repository / "pwned").exists()
    assert list((folder / "x").iterdir()) == []


@pytest.mark.parametrize("name", [".git", ".GIT", ".gi\u200ct", "\ufeff.git", "."])
def test_names_that_are_refused(repository: Path, name: str) -> None:
    blob = git(repository, "rev-parse", "HEAD:run.sh")
    made = raw_commit(repository, ("100644", name, blob))
    assert "has a file with the path" in refused(made, repository)


def test_the_home_may_be_in_the_repository(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / ".gitignore").write_text("/.rsctl\n")
    commit(repository)
    monkeypatch.setenv("RSCTL_HOME", str(repository / ".rsctl"))
    folder = check_out("main", str(repository)).folder
    assert source_digest(folder / "src") == source_digest(repository / "src")
    assert set(files(folder)) == {*FILES, ".gitignore"}


def test_a_file_of_git_lfs_has_its_content(repository: Path) -> None:
    content = b"a large file\n"
    oid = hashlib.sha256(content).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(content)}\n"
    (repository / "large").write_text(pointer)
    commit(repository)
    assert "large is stored by Git LFS, and its content is not in this" in refused(
        "main", repository
    )
    stored = repository / ".git" / "lfs" / "objects" / oid[:2] / oid[2:4] / oid
    stored.parent.mkdir(parents=True)
    stored.write_bytes(b"damaged")
    assert "is damaged" in refused("main", repository)
    stored.write_bytes(content)
    assert (check_out("main", str(repository)).folder / "large").read_bytes() == content


def test_submodules(repository: Path, tmp_path: Path) -> None:
    module = tmp_path / "module"
    module.mkdir()
    git(module, "init", "-q", "-b", "main")
    (module / "inner.py").write_text("inner\n")
    commit(module)
    git(repository, "submodule", "add", "-q", str(module), "lib")
    commit(repository)
    (repository / "lib" / "inner.py").write_text("changed\n")
    assert files(check_out("main", str(repository)).folder)["lib/inner.py"] == "inner\n"

    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repository), str(clone))
    (clone / "new").touch()
    commit(clone)
    assert "lib/inner.py" not in files(check_out("main", str(clone)).folder)


def test_an_object_that_is_missing_is_not_fetched(repository: Path) -> None:
    name = git(repository, "rev-parse", "HEAD:run.sh")
    (repository / ".git" / "objects" / name[:2] / name[2:]).unlink()
    assert "does not have the content of run.sh, and rsctl does not" in refused("main", repository)


def test_a_repository_of_sha256(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", "--object-format=sha256")
    (folder / "a").write_text("1\n")
    name = commit(folder)
    found = check_out("main", str(folder))
    assert (len(name), files(found.folder)) == (64, {"a": "1\n"})
    again = check_out(name[:12], str(folder))
    assert (again.folder, again.is_new) == (found.folder, False)
    known = commit_of(found.folder)
    assert known is not None
    assert known.revision == name


@pytest.mark.parametrize("ref", ["none", "HEAD~7", "main^{tree}", "main:src"])
def test_no_such_commit(repository: Path, ref: str) -> None:
    assert refused(ref, repository).startswith(f"cannot use --against {ref}: ")


def test_a_checkout_that_another_process_has_used_since_stays(repository: Path) -> None:
    first = check_out("main", str(repository))
    (first.folder / "output").write_text("of a run")
    second = check_out("main", str(repository))
    assert not remove_checkout(first.commit, first.used)
    assert remove_checkout(second.commit, second.used)
    assert not first.folder.exists()
