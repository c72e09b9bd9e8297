"""`.gitignore` where there is no `.dockerignore`, compared with git itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rsctl.images.context import source_entries

_NAMES = """
train.py data.csv data/a.csv data/keep.csv data/deep/b.csv build/lib/x.py src/build/y.py
logs/run.log logs/.gitkeep a/b/c.txt a/x/y/c.txt a/c.txt doc/frotz/z doc/frotz2 frotz foo-1.txt
foo-a.txt foo].txt foo-x.txt #hash !bang weird[1].txt café.txt x/café1.txt A.TXT tracked.log
sub/.hidden sub/one.tmp sub/keep.tmp sub/inner/two.tmp abc/def/ghi/jkl.bin back\\slash Z.py
"""
FILES = [*_NAMES.split(), "tail ", "two words.txt"]

CASES = [
    "*.csv\n!keep.csv\n",
    "/data.csv\ndata/*\n!data/keep.csv\n",
    "data/\n!data/keep.csv\n",
    "build\n",
    "/build/\n",
    "build/lib\n",
    "**/build\n",
    "a/**/c.txt\n",
    "a/**\n!a/c.txt\n",
    "**\n!*.py\n!*/\n",
    "*\n!train.py\n",
    "doc/frotz/\nfrotz\n",
    "/frotz\n",
    "foo-[0-9].txt\n",
    "foo-[!0-9a].txt\n",
    "foo[]].txt\n",
    "foo-[[:alpha:]].txt\n",
    "foo-[a-\n",
    "\\#hash\n#train.py\n",
    "\\!bang\n",
    "tail\\ \n",
    "tail   \ntwo words.txt   \n",
    "weird\\[1].txt\n",
    "caf?.txt\n",
    "caf??.txt\nx/caf*\n",
    "a.txt\n",
    "*.log\n",
    "*.tmp\n",
    "abc/**/jkl.bin\n",
    "abc/*/jkl.bin\n",
    "abc**/ghi\n",
    "back\\\\slash\n",
    "*.py\\\n",
    "\ufefftrain.py\r\nfrotz\r\n",
    "\n\n   \n/\n",
    "sub/inner\n",
    "[A-Z].py\n",
    "x/\n!x/\n",
    "foo-?.txt\n!foo-a.txt",
]


def git(folder: Path, *arguments: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    command = ["git", "-c", "core.quotepath=off", "-C", str(folder), *arguments]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


@pytest.fixture(params=["2", "4"])
def repository(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A repository with one tracked file that a pattern may name, by version of its index."""
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", "tracked.log", "abc/def/ghi/jkl.bin")
    git(tmp_path, "update-index", "--index-version", str(request.param))
    return tmp_path


def ours(folder: Path) -> list[str]:
    entries, _ = source_entries(folder, "")
    return sorted(entry.name for entry in entries if entry.path)


def gits(folder: Path) -> list[str]:
    """What git has or would add, as `git add .` would find it."""
    listed = git(
        folder, "ls-files", "-z", "--cached", "--others", "--exclude-per-directory=.gitignore"
    )
    return sorted(name for name in listed.split("\0") if name)


@pytest.mark.parametrize("text", CASES)
def test_the_same_files_as_git(repository: Path, text: str) -> None:
    (repository / ".gitignore").write_bytes(text.encode())
    assert ours(repository) == gits(repository)


def test_files_in_folders_come_after_those_above(repository: Path) -> None:
    (repository / ".gitignore").write_text("*.tmp\n*.csv\n")
    (repository / "sub" / ".gitignore").write_text("!keep.tmp\n/inner\n")
    (repository / "data" / ".gitignore").write_text("!*.csv\n/a.csv\n")
    assert ours(repository) == gits(repository)
    assert ours(repository / "sub") == gits(repository / "sub")
    assert ours(repository / "data") == gits(repository / "data")


def test_a_source_that_is_ignored_itself_is_wanted_all_the_same(repository: Path) -> None:
    (repository / ".gitignore").write_text("sub/\n*.tmp\n")
    (repository / "sub" / ".gitignore").write_text("one.tmp\n")
    assert ours(repository / "sub") == [".gitignore", ".hidden", "inner/two.tmp", "keep.tmp"]


def test_a_dockerignore_counts_alone(repository: Path) -> None:
    (repository / ".gitignore").write_text("*\n")
    (repository / ".dockerignore").write_text("data\n")
    names = ours(repository)
    assert "train.py" in names
    assert not any(name.startswith("data/") for name in names)


def test_without_a_repository_and_with_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("x")
    (tmp_path / "lost.bin").write_text("x")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "kept.bin").write_text("x")
    (tmp_path / ".gitignore").write_text("*.bin\n")
    assert ours(tmp_path) == [".gitignore", "kept.txt"]
    (tmp_path / ".gitignore").unlink()
    os.mkfifo(tmp_path / ".gitignore")
    os.mkfifo(tmp_path / ".git")
    assert ours(tmp_path) == ["kept.txt", "lost.bin", "sub/kept.bin"]


def test_credentials_do_not_come_back_by_a_gitignore(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1")
    (tmp_path / ".gitignore").write_text("!.env\n")
    assert ours(tmp_path) == [".gitignore"]
