"""Whole Dockerfiles, each in tests/images/dockerfiles, and what their commands do."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.data import containers_folder
from rsctl.images.recipe import Contents, make_dockerfile, make_recipe
from rsctl.images.transport import FRAGMENTS, fragment
from rsctl.job.document import read

WHOLE = Path(__file__).with_name("dockerfiles")
DEBIAN = Contents("python:3.12-slim-bookworm")
UBUNTU = Contents("ubuntu:24.04", apt=("python3", "python3-pip"), has_requirements=True)
CONDA = Contents(
    "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", apt=("libaio1", "g++"), has_requirements=True
)
AWS = Contents(
    "public.ecr.aws/deep-learning-containers/pytorch:2.12-cu130-amzn2023-sagemaker",
    has_requirements=True,
    transport="efa",
)
GOOGLE = Contents(
    "us-docker.pkg.dev/deeplearning-platform-release/gcr.io/pytorch-cu121.2-2.py310",
    transport="reduction-server",
)
DOCKERFILES = {
    "debian": (DEBIAN, True),
    "ubuntu": (UBUNTU, True),
    "conda": (CONDA, True),
    "conda-classic": (CONDA, False),
    "secrets": (CONDA._replace(secrets=("GIT_TOKEN", "PIP_INDEX_URL")), True),
    "aws": (AWS, True),
    "google": (GOOGLE, True),
    "google-fast-socket": (GOOGLE._replace(transport="fast-socket"), False),
    "once": (DEBIAN._replace(launcher="once", has_source=False), True),
    "own": (
        DEBIAN._replace(
            env=(("A", "a b"), ("QUOTES", """'"\\ $HOME `id` #"""), ("EMPTY", "")),
            run=("rm -f /etc/apt/sources.list.d/cuda.list", '  echo "$A" > "/etc/a b" && [ -s x ]'),
            apt=("git",),
            has_requirements=True,
        ),
        False,
    ),
    "foreign": (CONDA._replace(launcher="none"), True),
}


@pytest.mark.parametrize("name", DOCKERFILES)
def test_a_whole_dockerfile(name: str) -> None:
    contents, cache_mounts = DOCKERFILES[name]
    made = make_dockerfile(contents, cache_mounts)
    assert made == (WHOLE / f"{name}.dockerfile").read_text()


@pytest.mark.parametrize("name", DOCKERFILES)
def test_everything_that_is_copied_is_in_the_context(name: str, tmp_path: Path) -> None:
    contents, _ = DOCKERFILES[name]
    (tmp_path / "train.py").touch()
    keys = {
        "base": contents.base,
        "transport": contents.transport,
        "python": ["numpy"] if contents.has_requirements else [],
        "env": dict(contents.env),
        "run": contents.run,
    }
    run = {"command": ["python"], "launcher": contents.launcher}
    text = json.dumps({"name": "job", "run": run, "image": keys})
    (tmp_path / "job.yaml").write_text(text.replace('"efa"', '"none"'))
    recipe = make_recipe(read(str(tmp_path / "job.yaml")).require_job(), "vertex")
    copied = re.findall(r"^COPY (?:--\S+ )?(\S+?)/? ", recipe.dockerfile(False), re.MULTILINE)
    names = {entry.name.split("/")[0] for entry in recipe.context.entries}
    assert set(copied) == names


def in_shell(
    command: str | list[str], folder: Path, **env: str
) -> subprocess.CompletedProcess[str]:
    argv = ["sh", "-c", command] if isinstance(command, str) else command
    return subprocess.run(argv, capture_output=True, text=True, cwd=folder, env=env, check=False)


MakeProgram = Callable[..., Path]


@pytest.fixture
def program(tmp_path: Path) -> MakeProgram:
    """Puts a program into a folder of the test's; it says its own path and its arguments."""

    def make(path: str, script: str = 'echo "$0" "$@"') -> Path:
        made = tmp_path / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(f"#!/bin/sh\n{script}\n")
        made.chmod(0o755)
        return made

    return make


@pytest.mark.parametrize(
    ("there", "virtual_env", "chosen"),
    [
        (["bin/python"], None, "bin/python"),
        (["bin/python", "bin/python3"], None, "bin/python"),
        (["bin/python3"], None, "bin/python3"),
        (["bin/python", "venv/bin/python"], "venv", "venv/bin/python"),
        (["bin/python3"], "gone", "bin/python3"),
    ],
)
def test_the_images_own_python_is_found(
    there: list[str], virtual_env: str | None, chosen: str, program: MakeProgram, tmp_path: Path
) -> None:
    for path in there:
        program(path)
    env = {"VIRTUAL_ENV": str(tmp_path / virtual_env)} if virtual_env else {}
    done = in_shell(
        [str(rsctl_python(tmp_path)), "-m", "x y"], tmp_path, PATH=f"{tmp_path}/bin", **env
    )
    assert done.stdout == f"{tmp_path / chosen} -m x y\n"


def test_a_base_without_python_is_told_so(tmp_path: Path) -> None:
    done = in_shell([str(rsctl_python(tmp_path))], tmp_path, PATH=f"{tmp_path}/bin")
    assert done.returncode == 3
    assert json.loads(done.stdout) == {
        "rsctl": "finding",
        "severity": "error",
        "code": "python",
        "message": "the base has no python and no python3",
        "remedy": "take a base with Python, or add python3 and python3-pip to image.apt",
    }


def rsctl_python(folder: Path) -> Path:
    (folder / "job.yaml").write_text("{name: j, run: {command: [x]}, image: {base: b}}")
    job = read(str(folder / "job.yaml")).require_job()
    [entry] = [e for e in make_recipe(job, "compose").context.entries if e.name == "rsctl-python"]
    assert entry.content is not None
    (folder / "rsctl-python").write_bytes(entry.content)
    (folder / "rsctl-python").chmod(0o755)
    return folder / "rsctl-python"


def commands_of(*names: str) -> list[str]:
    """The commands of fragments, as a shell gets them, with their arguments."""
    text = "".join(re.sub(r"^#.*\n", "", fragment(name), flags=re.MULTILINE) for name in names)
    arguments = "".join(f"{given}; " for given in re.findall(r"^ARG (.*)$", text, re.MULTILINE))
    parts = re.sub(r"^ARG .*\n", "", text, flags=re.MULTILINE).split("RUN ")
    return [arguments + part.replace("\\\n", "") for part in parts if part.strip()]


def run_fragment(name: str, root: Path) -> list[str]:
    """What a fragment calls."""
    return run_fragments([name], root)


def run_fragments(names: list[str], root: Path) -> list[str]:
    """What fragments call, with / and /tmp moved into a folder of the test's."""
    for path in ("etc/apt/sources.list.d", "etc/ld.so.conf.d", "usr/share/keyrings", "tmp"):
        (root / path).mkdir(parents=True, exist_ok=True)
    for command in commands_of(*names):
        moved = re.sub(r"(?<![\w.:/])/(etc|usr|opt|tmp|var)(?=/)", rf"{root}/\1", command)
        moved = moved.replace("find / ", f"find {root} ")
        done = in_shell(moved, root, PATH=f"{root}/bin:{os.environ['PATH']}")
        assert done.returncode == 0, done.stderr
    calls = root / "calls"
    return calls.read_text().replace(str(root), "").splitlines() if calls.exists() else []


def noted(root: Path, code: int = 0) -> str:
    """A program that notes its call."""
    return f'echo "${{0##*/}} $*" >> {root}/calls; exit {code}'


@pytest.fixture
def base(program: MakeProgram, tmp_path: Path) -> Path:
    """A base image, as far as the fragments look at it: with apt, without any plugin."""
    for name in ("apt-get", "curl", "gpg", "ldconfig", "sha256sum"):
        program(f"bin/{name}", noted(tmp_path))
    program("bin/dpkg", noted(tmp_path, code=1))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "google.key").touch()
    return tmp_path


def google_plugin(wanted: str, base: Path) -> list[str]:
    """What the fragments of one of Google's plugins call."""
    return run_fragments([wanted, "google-plugin"], base)


@pytest.mark.parametrize("wanted", ["reduction-server", "fast-socket"])
def test_googles_repository_has_a_keyring_of_its_own(wanted: str, base: Path) -> None:
    (base / "etc/apt/sources.list.d").mkdir(parents=True)
    old = base / "etc/apt/sources.list.d/old.list"
    old.write_text("deb https://packages.cloud.google.com/apt google-fast-socket main\n")
    other = {"reduction-server": "fast-socket", "fast-socket": "reduction-server"}[wanted]
    assert google_plugin(wanted, base) == [
        f"dpkg -s google-{other}",
        f"dpkg -s google-{wanted}",
        "apt-get update",
        "apt-get install -y --no-install-recommends ca-certificates curl gnupg",
        "curl -fsSL -o /tmp/google.key https://packages.cloud.google.com/apt/doc/apt-key.gpg",
        "gpg --batch --yes --dearmor -o /usr/share/keyrings/google-fast-socket.gpg /tmp/google.key",
        "apt-get update",
        f"apt-get install -y --no-install-recommends google-{wanted}",
        "ldconfig ",
    ]
    listed = (base / "etc/apt/sources.list.d/google-fast-socket.list").read_text()
    assert listed.replace(str(base), "") == (
        "deb [signed-by=/usr/share/keyrings/google-fast-socket.gpg] "
        "https://packages.cloud.google.com/apt google-fast-socket main\n"
    )
    assert not (base / "tmp/google.key").exists()
    assert not old.exists()


@pytest.mark.parametrize(
    ("wanted", "other"),
    [
        ("reduction-server", "google-fast-socket"),
        ("fast-socket", "google-reduction-server"),
    ],
)
def test_the_other_plugin_of_google_goes_first(
    wanted: str, other: str, base: Path, program: MakeProgram
) -> None:
    program("bin/dpkg", f'{noted(base).split(";")[0]}; [ "$2" = {other} ]')
    assert google_plugin(wanted, base)[:3] == [
        f"dpkg -s {other}",
        f"apt-get purge -y {other}",
        f"dpkg -s google-{wanted}",
    ]


def test_a_package_that_the_base_brings_needs_no_repository(
    base: Path, program: MakeProgram
) -> None:
    """Which may have a signing key that is out of date."""
    program("bin/dpkg", f'{noted(base).split(";")[0]}; [ "$2" = google-fast-socket ]')
    assert google_plugin("fast-socket", base) == [
        "dpkg -s google-reduction-server",
        "dpkg -s google-fast-socket",
        "ldconfig ",
    ]


INSTALLER = """mkdir -p aws-efa-installer {root}/opt/amazon/ofi-nccl/lib {root}/opt/amazon/efa/lib
touch {root}/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so
printf '#!/bin/sh\\n{noted}\\n' > aws-efa-installer/efa_installer.sh
chmod +x aws-efa-installer/efa_installer.sh"""


def test_efa_is_installed_and_its_plugin_gets_the_name_that_nccl_asks_for(
    base: Path, program: MakeProgram
) -> None:
    program("bin/tar", INSTALLER.format(root=base, noted=f'echo "efa $*" >> {base}/calls'))
    (base / "opt/cuda").mkdir(parents=True)
    (base / "opt/cuda/libcudart.so.12").touch()
    assert run_fragment("efa", base) == [
        "curl -fsSL -o efa.tar.gz https://s3-us-west-2.amazonaws.com/aws-efa-installer/"
        "aws-efa-installer-1.49.0.tar.gz",
        "sha256sum -c -",
        "efa -y --skip-kmod --skip-limit-conf --no-verify --disable-ngc",
        "ldconfig -p",
        "ldconfig ",
    ]
    plugins = base / "opt/amazon/ofi-nccl/lib"
    assert os.readlink(plugins / "libnccl-net.so") == "libnccl-net-ofi.so"
    assert os.readlink(plugins / "libcudart.so") == str(base / "opt/cuda/libcudart.so.12")
    listed = (base / "etc/ld.so.conf.d/rsctl-efa.conf").read_text().replace(str(base), "")
    assert listed == "/opt/amazon/ofi-nccl/lib\n/opt/amazon/efa/lib\n"


def test_an_efa_installer_that_is_not_the_one_that_is_meant_does_not_run(
    base: Path, program: MakeProgram
) -> None:
    program("bin/curl", "echo changed > efa.tar.gz")
    program("bin/tar", INSTALLER.format(root=base, noted=f"touch {base}/hacked"))
    (base / "bin/sha256sum").unlink()
    (base / "tmp").mkdir(exist_ok=True)
    command = re.sub(r"(?<![\w.:/])/(opt|tmp|var)(?=/)", rf"{base}/\1", commands_of("efa")[0])
    done = in_shell(command, base, PATH=f"{base}/bin:{os.environ['PATH']}")
    assert done.returncode != 0
    assert "did NOT match" in done.stderr
    assert not (base / "hacked").exists()


@pytest.mark.parametrize(
    "folder",
    [
        "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
        "opt/aws-ofi-nccl/install/lib",  # awsome-distributed-training, megatron-lm and nemo
        "opt/aws-ofi-nccl/lib",
    ],
)
def test_efa_that_the_base_brings_is_kept(base: Path, program: MakeProgram, folder: str) -> None:
    plugins = base / folder
    plugins.mkdir(parents=True)
    built = base / "opt/aws-ofi-nccl/src/.libs"
    built.mkdir(parents=True)
    (built / "libnccl-net.so").write_text("where it was compiled")
    (plugins / "libnccl-net.so").write_text("the base's")
    program("bin/ldconfig", f"{noted(base).split(';')[0]}; echo 'libcudart.so (libc6) => /x'")
    assert run_fragment("efa", base) == ["ldconfig -p", "ldconfig "]
    assert (plugins / "libnccl-net.so").read_text() == "the base's"
    assert [path.name for path in plugins.iterdir()] == ["libnccl-net.so"]


@pytest.mark.parametrize("name", sorted({name for known in FRAGMENTS.values() for name in known}))
def test_a_fragment_says_where_it_comes_from_and_what_it_needs(name: str) -> None:
    text = (containers_folder() / f"{name}.dockerfile").read_text()
    head = text.split("RUN ")[0]
    assert re.search(r"^# source +\S", head, re.MULTILINE)
    assert re.search(r"^# needs +\S", head, re.MULTILINE)
    assert all(len(line) < 140 for line in text.splitlines())


def test_no_outdated_setting_is_written() -> None:
    for path in containers_folder().glob("*.dockerfile"):
        instructions = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE)
        assert not re.search(r"FI_[A-Z]|NCCL_[A-Z]|RDMAV|apt-key add", instructions), path
