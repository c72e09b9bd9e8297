"""The files of a build: which they are, what their hash depends on, and how docker gets them."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from rsctl.findings import ExitCode, error
from rsctl.images.context import (
    BuildContext,
    ContextEntry,
    changed_error,
    copy_entries,
    source_entries,
    unreadable,
)
from rsctl.images.findings import left_out_notes
from tests.kit.disks import deep_folder

from .conftest import context


def tar_of(context: BuildContext) -> tarfile.TarFile:
    out = io.BytesIO()
    context.write_tar(out)
    return tarfile.open(fileobj=io.BytesIO(out.getvalue()))


def test_docker_gets_the_files_the_links_and_the_folders(source: Path) -> None:
    with tar_of(context(source)) as tar:
        members = {
            m.name: (m.type.decode(), oct(m.mode), m.linkname, m.size) for m in tar.getmembers()
        }
        content = tar.extractfile("source/pkg/a.py")
        assert content is not None
        assert content.read() == b"A = 1\n"
        assert {(m.uid, m.gid, m.uname) for m in tar.getmembers()} == {(0, 0, "")}
    assert members == {
        "source": ("5", "0o755", "", 0),
        "source/empty": ("5", "0o755", "", 0),
        "source/link": ("2", "0o644", "pkg/a.py", 0),
        "source/pkg": ("5", "0o755", "", 0),
        "source/pkg/a.py": ("0", "0o644", "", 6),
        "source/run.sh": ("0", "0o755", "", 10),
        "source/train.py": ("0", "0o644", "", 8),
    }


def test_bytecode_in_the_base_is_not_that_of_a_changed_file(tmp_path: Path) -> None:
    """Python compares the time and the size, and the base may have the file before its change."""
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    for text in ("old", "new"):
        with tar_of(BuildContext([ContextEntry("a.py", content=f"print('{text}')".encode())])) as t:
            t.extract("a.py", tmp_path)
        command = [sys.executable, "-c", "import a"]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == (f"{text}\n", "")
        assert list(tmp_path.glob("__pycache__/a.*.pyc"))


def test_an_empty_source_is_a_folder_for_docker_to_copy(tmp_path: Path) -> None:
    with tar_of(context(tmp_path)) as tar:
        assert tar.getnames() == ["source"]


def test_the_hash_does_not_depend_on_times_permissions_of_others_or_order(source: Path) -> None:
    before = context(source).digest()
    os.utime(source / "train.py", (1, 1))
    (source / "train.py").chmod(0o600)
    (source / "run.sh").chmod(0o700)
    (source / "pkg").chmod(0o700)
    text = (source / "pkg" / "a.py").read_text()
    (source / "pkg" / "a.py").unlink()
    (source / "pkg" / "a.py").write_text(text)
    reversed_ = BuildContext(list(reversed(context(source).entries)))
    assert context(source).digest() == reversed_.digest() == before
    if os.geteuid() == 0:
        os.chown(source / "train.py", 1, 1)
        assert context(source).digest() == before


CHANGES = {
    "content": lambda s: (s / "train.py").write_text("print(1)\n"),
    "name": lambda s: (s / "train.py").rename(s / "test.py"),
    "x-bit": lambda s: (s / "train.py").chmod(0o755),
    "no x-bit": lambda s: (s / "run.sh").chmod(0o644),
    "link": lambda s: ((s / "link").unlink(), (s / "link").symlink_to("pkg/b.py")),
    "file for link": lambda s: ((s / "link").unlink(), (s / "link").write_text("A = 1\n")),
    "new file": lambda s: (s / "new").touch(),
    "no folder": lambda s: (s / "empty").rmdir(),
    "empty file for folder": lambda s: ((s / "empty").rmdir(), (s / "empty").touch()),
    "moved": lambda s: (s / "pkg" / "a.py").rename(s / "a.py"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_hash_depends_on_names_contents_modes_and_targets(source: Path, change: object) -> None:
    before = context(source).digest()
    change(source)  # type: ignore[operator]
    assert context(source).digest() != before


def test_what_a_compiler_made_is_hashed_by_its_sources(tmp_path: Path) -> None:
    def digest(content: bytes, made_from: bytes) -> str:
        return BuildContext([ContextEntry("a.so", content=content, made_from=made_from)]).digest()

    assert digest(b"by gcc", b"source") == digest(b"by clang", b"source")
    assert digest(b"by gcc", b"source") != digest(b"by gcc", b"other")


def test_a_known_hash_stays_the_same_on_every_machine() -> None:
    entries = [
        ContextEntry("Dockerfile", content=b"FROM x\n"),
        ContextEntry("run", executable=True, content=b""),
        ContextEntry("link", link="run"),
        ContextEntry("folder"),
    ]
    assert BuildContext(entries).digest() == "376661ac086e9c5f"


def test_what_is_left_out_is_told_once_for_a_folder(source: Path) -> None:
    (source / ".git" / "objects").mkdir(parents=True)
    (source / ".git" / "HEAD").touch()
    (source / "pkg" / "__pycache__").mkdir()
    (source / "pkg" / "__pycache__" / "a.pyc").touch()
    (source / ".env").touch()
    (source / ".dockerignore").write_text("*.sh\n")
    made = context(source)
    assert made.left_out == [
        (".env", "may contain credentials"),
        (".git", "version control"),
        ("pkg/__pycache__", "generated by tools, which generate it again when needed"),
        ("run.sh", "named in .dockerignore"),
    ]
    assert [entry.name for entry in made.entries] == [
        "source",
        "source/.dockerignore",
        "source/empty",
        "source/link",
        "source/pkg",
        "source/pkg/a.py",
        "source/train.py",
    ]


def test_a_file_of_a_folder_that_is_left_out_can_be_taken_back_in(source: Path) -> None:
    (source / ".dockerignore").write_text("pkg\n!pkg/a.py\n.dockerignore\n")
    (source / "pkg" / "b.py").touch()
    names = [entry.name for entry in context(source).entries]
    assert "source/pkg/a.py" in names
    assert "source/pkg/b.py" not in names
    assert [path for path, _ in context(source).left_out] == [".dockerignore", "pkg"]


def test_a_folder_of_which_nothing_is_kept_does_not_change_the_hash(source: Path) -> None:
    """A new clone does not have it: git knows files only."""
    (source / ".gitignore").write_text("*.log\n")
    before = context(source).digest()
    for file in ("logs/deep/a.log", "logs/b.log", "old/pkg/__pycache__/a.pyc", "conf/.env"):
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        (source / file).touch()
    assert context(source).digest() == before
    (source / "logs" / "deep" / "kept.txt").touch()
    names = [entry.name for entry in context(source).entries if "logs" in entry.name]
    assert names == ["source/logs", "source/logs/deep", "source/logs/deep/kept.txt"]


def test_a_folder_that_dockerignore_empties_stays_as_for_docker(source: Path) -> None:
    (source / ".dockerignore").write_text("pkg/*\n")
    assert "source/pkg" in [entry.name for entry in context(source).entries]


def test_a_virtual_environment_of_any_name_stays_out_beside_a_pattern_that_includes(
    source: Path,
) -> None:
    for name in ("env/pyvenv.cfg", "env/bin/python", "env/lib/deep/a.py"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    (source / ".dockerignore").write_text("!pkg\n!env/lib\n")
    names = [entry.name for entry in context(source).entries if "env" in entry.name]
    assert names == ["source/env/lib", "source/env/lib/deep", "source/env/lib/deep/a.py"]


def test_a_link_to_a_folder_or_out_of_it_stays_a_link(source: Path) -> None:
    (source / "loop").symlink_to(".")
    (source / "outside").symlink_to("/etc/passwd")
    (source / "dangling").symlink_to("nowhere")
    links = {entry.name: entry.link for entry in context(source).entries if entry.link}
    assert links == {
        "source/dangling": "nowhere",
        "source/link": "pkg/a.py",
        "source/loop": ".",
        "source/outside": "/etc/passwd",
    }


def test_a_source_can_have_any_number_of_levels(source: Path) -> None:
    with deep_folder(source) as deepest:
        (deepest / "file").touch()
        entries, _ = source_entries(source, "app/")
    assert f"app/{'a/' * 300}file" in {entry.name for entry in entries}


def test_sockets_and_pipes_are_left_out(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = context(source).digest()
    os.mkfifo(source / "pipe")
    monkeypatch.chdir(source)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    made = context(source)
    assert made.digest() == before
    assert made.left_out == [
        ("pipe", "it is not a regular file"),
        ("socket", "it is not a regular file"),
    ]


@pytest.mark.parametrize("name", [b"caf\xe9", b"two\nlines", "\u4e2d".encode(), b"x" * 200])
def test_any_name_is_hashed_and_sent(source: Path, name: bytes) -> None:
    before = context(source).digest()
    path = os.path.join(os.fsencode(source), name)
    with open(path, "wb") as file:
        file.write(b"1")
    made = context(source)
    assert made.digest() != before
    with tar_of(made) as tar:
        assert os.fsdecode(b"source/" + name) in tar.getnames()


def test_a_name_that_is_no_text_can_be_shown(source: Path) -> None:
    with open(os.path.join(os.fsencode(source), b"caf\xe9.pyc"), "wb"):
        pass
    assert [path for path, _ in context(source).left_out] == ["caf\\udce9.pyc"]


def test_a_large_file_is_not_read_into_memory(source: Path) -> None:
    """A sparse file larger than the limit on memory under which it is hashed and sent."""
    size = 256 << 20
    os.truncate(source / "train.py", size)
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from rsctl.images.context import BuildContext, source_entries\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({size}, {size}))\n"
        "context = BuildContext(source_entries(Path(sys.argv[1]), 's/')[0])\n"
        "context.digest(); context.write_tar(open('/dev/null', 'wb'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_file_that_shrinks_while_it_is_sent_is_an_error(tmp_path: Path) -> None:
    class Shrinking(ContextEntry):
        def open(self) -> io.BytesIO:
            class File(io.BytesIO):
                def seek(self, offset: int, whence: int = 0) -> int:
                    return super().seek(offset, whence) + (10 if whence else 0)

            return File(b"1")

    with pytest.raises(OSError, match="it has become shorter"):
        BuildContext([Shrinking("x")]).write_tar(io.BytesIO())


def test_a_file_that_cannot_be_read_is_an_error_with_its_name(source: Path) -> None:
    made = context(source)
    (source / "train.py").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        made.digest()
    assert caught.value.filename == str(source / "train.py")


@pytest.mark.parametrize("below", ["", "code"])
def test_a_submodule_that_is_not_initialized_is_told(tmp_path: Path, below: str) -> None:
    """Also in a source that is a folder of the repository, and in a submodule that is there."""
    safe = ["-c", "protocol.file.allow=always", "-c", "user.name=a", "-c", "user.email=a@b"]

    def git(folder: Path, *arguments: str) -> None:
        command = ["git", *safe, *arguments]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    def commit(folder: Path) -> None:
        (folder / "file.py").write_text("1\n")
        git(folder, "add", "--all")
        git(folder, "commit", "--message", "a")

    inner, middle, outer = (tmp_path / name for name in ("inner", "middle", "outer"))
    for folder, module, path in ((inner, None, ""), (middle, inner, "deep"), (outer, middle, "a")):
        folder.mkdir()
        git(folder, "init")
        if module is not None:
            place = path if folder == middle else f"code/{path}"
            git(folder, "submodule", "add", str(module), place)
        commit(folder)
    copy = tmp_path / "copy"
    git(tmp_path, "clone", str(outer), str(copy))
    (copy / "empty").mkdir()
    (copy / "code" / "empty").mkdir()
    prefix = "" if below else "code/"
    reason = "a git submodule that is not initialized, so its folder is empty"
    found = source_entries(copy / below, "")[1]
    assert [each for each in found if "submodule" in each.reason] == [(f"{prefix}a", reason)]
    git(copy, "submodule", "update", "--init")
    found = source_entries(copy / below, "")[1]
    assert [each for each in found if "submodule" in each.reason] == [(f"{prefix}a/deep", reason)]
    assert [each.severity for each in left_out_notes(found, "the image")][-1] == "warning"


def test_a_source_is_copied_with_its_folders_links_and_modes(tmp_path: Path) -> None:
    source = tmp_path / "src"
    (source / "lib" / "empty").mkdir(parents=True)
    (source / "lib" / "a.py").write_text("1")
    (source / "run.sh").write_text("2")
    (source / "run.sh").chmod(0o700)
    (source / "lib" / "b.py").symlink_to("a.py")
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_entries(source_entries(source, "")[0], copy)
    found = {str(path.relative_to(copy)): path for path in copy.rglob("*")}
    assert sorted(found) == ["lib", "lib/a.py", "lib/b.py", "lib/empty", "run.sh"]
    assert os.readlink(found["lib/b.py"]) == "a.py"
    modes = {name: found[name].stat().st_mode & 0o777 for name in ("lib/a.py", "run.sh")}
    assert modes == {"lib/a.py": 0o644, "run.sh": 0o755}
    assert [found[name].read_text() for name in ("lib/b.py", "run.sh")] == ["1", "2"]


@pytest.mark.parametrize(
    ("key", "more"),
    [
        (
            "image.source",
            ", or list it in .dockerignore; start the job when no other program writes there",
        ),
        ("image.dockerfile", ""),
    ],
)
def test_a_file_that_cannot_be_read(key: str, more: str) -> None:
    found = unreadable(PermissionError(13, "Permission denied", "/x"), key)
    assert found.exit_code is ExitCode.USAGE
    remedy = f"check that it exists and is readable{more}"
    assert found.findings == (error("file", "cannot read /x: Permission denied", remedy, key),)


@pytest.mark.parametrize(
    ("key", "shown"), [("image.source", "a, b\\udcff"), ("k", "source/a, source/b\\udcff")]
)
def test_files_that_changed_are_named_below_their_key(key: str, shown: str) -> None:
    found = changed_error(["source/a", "source/b\udcff"], key, "it was packed")
    assert found.exit_code is ExitCode.ENVIRONMENT
    assert found.findings == (
        error(
            "changed",
            f"files changed while it was packed: {shown}",
            "run the command again; list files that other programs write in .dockerignore",
            key,
        ),
    )
