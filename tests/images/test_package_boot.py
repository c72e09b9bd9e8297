"""A package where it is unpacked: `python3 -I -c LOADER FILE HASH ARGUMENTS...`."""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rsctl.images import package_boot
from rsctl.images.package import LOADER, make_package
from tests.kit.packages import make_job, tar_of

CLUSTER = {
    "role": "worker",
    "index": 0,
    "workers": ["127.0.0.1"],
    "reducers": [],
    "interface": None,
    "port": 29500,
}
ARGUMENTS = ["--launcher", "once", "--python", "--", "train.py", "--lr", "1 2", ""]


def load(file: Path, digest: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-I", "-c", LOADER, str(file), digest, *arguments],
        env={**environ, "TMPDIR": str(file.parent), **env},
        cwd=file.parent,
        capture_output=True,
        text=True,
    )


def staged(tmp_path: Path, tar: bytes) -> tuple[Path, str]:
    """A tar as a package, and its hash."""
    file = tmp_path / "package.tar.gz"
    file.write_bytes(gzip.compress(tar))
    return file, hashlib.sha256(tar).hexdigest()


@pytest.fixture
def package(tmp_path: Path) -> tuple[Path, str]:
    """A whole package, and its hash."""
    made = make_package(make_job(tmp_path))
    with (tmp_path / "package.tar.gz").open("wb") as out:
        made.write(out)
    return tmp_path / "package.tar.gz", made.digest


def test_it_launches_the_job_in_its_source(tmp_path: Path, package: tuple[Path, str]) -> None:
    cluster = json.dumps(CLUSTER)
    done = load(*package, *ARGUMENTS, RSCTL_CLUSTER=cluster, PYTHONPATH="/their/own")
    assert done.returncode == 0, done.stderr
    assert "source ['--lr', '1 2', '']" in done.stdout.splitlines()


def test_the_runtime_comes_after_what_the_image_has(
    tmp_path: Path, package: tuple[Path, str]
) -> None:
    script = "import os, rsctl\nprint(os.environ['PYTHONPATH'], rsctl.__file__)\n"
    made = make_package(make_job(tmp_path))
    (tmp_path / "src" / "train.py").write_text(script)
    made = make_package(make_job(tmp_path))
    with package[0].open("wb") as out:
        made.write(out)
    env = {"RSCTL_CLUSTER": json.dumps(CLUSTER), "PYTHONPATH": "/their/own"}
    done = load(package[0], made.digest, *ARGUMENTS, **env)
    [said] = [line for line in done.stdout.splitlines() if line.startswith("/their")]
    path, file = said.split()
    runtime = path.removeprefix("/their/own:")
    assert file == f"{runtime}/rsctl/__init__.py"
    assert runtime.startswith(f"{os.path.realpath(tmp_path)}/rsctl-")


def test_nodes_that_are_processes_leave_nothing_behind(
    tmp_path: Path, package: tuple[Path, str]
) -> None:
    """Their roots are removed with all that is in them."""
    root = tmp_path / "root"
    root.mkdir()
    load(*package, *ARGUMENTS, RSCTL_CLUSTER=json.dumps(CLUSTER), RSCTL_ROOT=str(root))
    assert [path.name for path in root.glob("*/source/train.py")] == ["train.py"]
    assert list(tmp_path.glob("rsctl-*")) == []


def test_what_was_changed_is_not_run(package: tuple[Path, str]) -> None:
    file, digest = package
    tar = gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(tar.replace(b"def start", b"def begin")))
    done = load(file, digest, *ARGUMENTS)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"{file} is not what was submitted\n",
    )


def test_the_check_cannot_be_optimized_away(package: tuple[Path, str]) -> None:
    file, _ = package
    assert "not what was submitted" in load(file, "0" * 64, PYTHONOPTIMIZE="2").stderr


_CUT_OFF = gzip.compress(b"x" * 999, mtime=0)[:-20]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "[Errno 2] No such file or directory: '{file}'"),
        (b"garbage", "Not a gzipped file (b'ga')"),
        (_CUT_OFF, "Compressed file ended before the end-of-stream marker"),
    ],
)
def test_what_cannot_be_read_is_reported_in_one_line(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    file = tmp_path / "package.tar.gz"
    if content is not None:
        file.write_bytes(content)
    done = load(file, "0" * 64)
    assert (done.returncode, done.stderr) == (1, "")
    [line] = done.stdout.splitlines()
    assert line.startswith(f"rsctl cannot start the source: {why.format(file=file)}")


def test_what_is_wrong_inside_is_reported_in_one_line(tmp_path: Path) -> None:
    boot = Path(package_boot.__file__).read_bytes()
    done = load(*staged(tmp_path, tar_of(("boot.py", boot), ("/etc/x", b""))))
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "rsctl cannot start the source: the package lists a file that it does not "
        "contain: '/etc/x'\n",
        "",
    )


HOSTILE = {
    "an absolute path": [("/x", b"")],
    "a path upwards": [("a/../../x", b"")],
    "a path of no name": [("a//b", b"")],
    "a link out": [("l", "-> ../x")],
    "an absolute link": [("l", "-> /etc")],
    "a link out by way of another": [("a/b/c", "-> .."), ("l", "-> a/b/c/../../..")],
    "a link that comes to lead out": [
        ("d/z/f", b""),
        ("l", "-> y/z/../.."),
        ("y", "-> d"),
        ("m", "-> l/.."),
    ],
    "a file through a link": [("l", "-> .."), ("l/x", b"")],
    "a link below a link": [("d/f", b""), ("l", "-> d"), ("l/m", "-> f")],
    "a pipe": [("p", None)],
    "a file twice": [("f", b"1"), ("f", b"2")],
    "a link instead of a file": [("f", b"1"), ("f", "-> g")],
    "a file below a file": [("f", b"1"), ("f/g", b"2")],
}


@pytest.mark.parametrize("title", HOSTILE)
def test_nothing_is_written_elsewhere(title: str, tmp_path: Path) -> None:
    folder = tmp_path / "inner" / "folder"
    folder.mkdir(parents=True)
    with pytest.raises((ValueError, OSError)):
        package_boot.unpack(tar_of(*HOSTILE[title]), str(folder))
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]
    assert [path.name for path in (tmp_path / "inner").iterdir()] == ["folder"]


def test_links_within_are_kept(tmp_path: Path) -> None:
    tar = tar_of(("l", "-> d/m"), ("d/f", b"1"), ("d/m", "-> ../e"), ("e/g", b"2"), ("x", "-> no"))
    package_boot.unpack(tar, str(tmp_path))
    assert (tmp_path / "l" / "g").read_bytes() == b"2"
    assert os.readlink(tmp_path / "x") == "no"


def test_it_parses_on_the_pythons_of_old_images() -> None:
    text = Path(package_boot.__file__).read_text()
    ast.parse(text, feature_version=(3, 7))
    assert "\0" not in text  # the loader takes it up to the first one
