"""`image:` to a Dockerfile and the files that it copies."""

from __future__ import annotations

import os
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.image import builder
from rsctl.image.recipe import Recipe, make_dockerfile, make_recipe
from rsctl.spec.document import read
from rsctl.spec.job import Image, Job

ReadJob = Callable[[str], Job]


@pytest.fixture
def job(tmp_path: Path) -> ReadJob:
    """A job whose `image:` is this YAML; its source is the test's folder."""
    (tmp_path / "train.py").write_text("print()\n")
    (tmp_path / "requirements.txt").write_text("numpy==2.0\n-e .\n")

    def reader(image: str) -> Job:
        text = f"name: job\nrun: {{script: train.py}}\nimage:\n  {image}\n"
        (tmp_path / "job.yaml").write_text(text)
        return read(str(tmp_path / "job.yaml")).require_job()

    return reader


def contents(recipe: Recipe) -> dict[str, bytes]:
    """The files of a recipe that are not the runtime's."""
    files = {}
    for entry in recipe.context.entries:
        if entry.kind.startswith("file") and not entry.name.startswith("runtime/"):
            with entry.open() as file:
                files[entry.name] = file.read()
    return files


FULL = r"""FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime
RUN apt-get update \
 && apt-get install -y --no-install-recommends libaio1 g++ \
 && rm -rf /var/lib/apt/lists/*
COPY requirements.txt /opt/rsctl/requirements.txt
RUN PYTHON -m pip install --no-cache-dir -r /opt/rsctl/requirements.txt
COPY rsctl-launch /usr/local/bin/rsctl-launch
COPY runtime/ /opt/rsctl/
WORKDIR /app
ENTRYPOINT ["rsctl-launch"]
COPY source/ /app/
""".replace("PYTHON", '"$(command -v python || command -v python3)"')

BARE = r"""FROM base
COPY rsctl-launch /usr/local/bin/rsctl-launch
COPY runtime/ /opt/rsctl/
WORKDIR /app
ENTRYPOINT ["rsctl-launch"]
COPY source/ /app/
"""


def test_a_whole_dockerfile(job: ReadJob) -> None:
    image = """base: pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime
  python: [numpy]
  apt: [libaio1, g++]"""
    assert make_dockerfile(job(image).image) == FULL


def test_a_dockerfile_without_extras(job: ReadJob) -> None:
    assert make_dockerfile(job("base: base").image) == BARE


def test_a_dockerfile_without_a_source() -> None:
    assert make_dockerfile(Image(base="base")) == BARE.replace("COPY source/ /app/\n", "")


def test_the_source_comes_last_so_that_a_change_of_code_rebuilds_one_layer(job: ReadJob) -> None:
    before = make_recipe(job("base: base\n  python: [numpy]"))
    assert before.dockerfile.splitlines()[-1] == "COPY source/ /app/"


@pytest.mark.parametrize(
    ("python", "requirements"),
    [
        ("requirements.txt", b"numpy==2.0\n-e .\n"),
        ("[numpy, 'torch>=2']", b"numpy\ntorch>=2\n"),
        (
            "['--extra-index-url https://example.com', 'a @ https://example.com/a.whl ; x']",
            b"--extra-index-url https://example.com\na @ https://example.com/a.whl ; x\n",
        ),
        ("[' numpy ']", b"numpy\n"),
    ],
)
def test_the_requirements_are_a_file_of_the_context(
    job: ReadJob, python: str, requirements: bytes
) -> None:
    made = contents(make_recipe(job(f"base: base\n  python: {python}")))
    assert made["requirements.txt"] == requirements


@pytest.mark.parametrize(
    "item", ["numpy\\n--index-url http://evil", "a\\rb", "a\\u2028b", "numpy\\\\", "a\\x0bb"]
)
def test_a_requirement_is_one_line(item: str, job: ReadJob) -> None:
    """Refused here or already by the spec."""
    with pytest.raises(RsctlError) as caught:
        make_recipe(job(f'base: base\n  python: ["{item}", other]'))
    [finding] = caught.value.findings
    assert caught.value.exit_code == ExitCode.USAGE
    assert str(finding.path).startswith("image.python")


@pytest.mark.parametrize(
    "image",
    [
        'base: "x\\nRUN evil"',
        'base: "x AS y"',
        'base: ""',
        'base: x\n  apt: ["a b"]',
        'base: x\n  apt: ["a;b"]',
        'base: x\n  apt: ["-oX=y"]',
        'base: x\n  apt: ["a\\nb"]',
        'base: x\n  apt: ["$(evil)"]',
        'base: x\n  apt: ["a && b"]',
    ],
)
def test_what_could_write_another_instruction_is_refused_by_the_spec(
    image: str, job: ReadJob
) -> None:
    with pytest.raises(RsctlError) as caught:
        job(image)
    assert caught.value.exit_code == ExitCode.USAGE


def test_the_tag_depends_on_everything_that_goes_in(job: ReadJob, tmp_path: Path) -> None:
    tags = [make_recipe(job("base: base")).reference]
    assert make_recipe(job("base: base")).reference == tags[0]
    tags.append(make_recipe(job("base: other")).reference)
    tags.append(make_recipe(job("base: base\n  apt: [git]")).reference)
    tags.append(make_recipe(job("base: base\n  python: requirements.txt")).reference)
    (tmp_path / "requirements.txt").write_text("scipy\n")
    tags.append(make_recipe(job("base: base\n  python: requirements.txt")).reference)
    (tmp_path / "train.py").write_text("print(1)\n")
    tags.append(make_recipe(job("base: base")).reference)
    assert len(set(tags)) == len(tags)
    assert all(tag.startswith("rsctl/job:") and len(tag) == len("rsctl/job:") + 16 for tag in tags)


def test_the_context_has_the_recipe_the_launcher_the_runtime_and_the_source(job: ReadJob) -> None:
    recipe = make_recipe(job("base: base"))
    files = contents(recipe)
    assert sorted(files) == [
        "Dockerfile",
        "rsctl-launch",
        "source/job.yaml",
        "source/requirements.txt",
        "source/train.py",
    ]
    assert files["Dockerfile"].decode() == recipe.dockerfile
    launcher = next(entry for entry in recipe.context.entries if entry.name == "rsctl-launch")
    assert launcher.executable
    with launcher.open() as file:
        checked = subprocess.run(["sh", "-n"], input=file.read(), capture_output=True)
    assert checked.returncode == 0


def test_a_missing_requirements_file_is_an_error_with_its_name(
    job: ReadJob, tmp_path: Path
) -> None:
    made = job("base: base\n  python: requirements.txt")
    (tmp_path / "requirements.txt").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        make_recipe(made)
    assert caught.value.filename == str(tmp_path / "requirements.txt")


DOCKER = """#!/bin/sh
echo "$@" >> "{calls}"
case "$1" in
  image) [ -e "{built}" ] ;;
  build) cat > "{built}"; echo "Step 1/1"; printf 'progress\\r\\033[31mbad\\n'; exit {code} ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Path]:
    """Puts a docker on the PATH that notes its calls and ends a build with this code."""

    def install(code: int) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        calls, built = folder / "calls", folder / "built"
        (folder / "docker").write_text(DOCKER.format(calls=calls, built=built, code=code))
        (folder / "docker").chmod((folder / "docker").stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return folder

    return install


def test_docker_gets_the_context_and_says_its_progress(
    job: ReadJob, docker: Callable[[int], Path]
) -> None:
    recipe, folder = make_recipe(job("base: base")), docker(0)
    said: list[str] = []
    assert not builder.is_built(recipe)
    builder.build(recipe, said.append)
    assert builder.is_built(recipe)
    assert said == ["Step 1/1", "progress\r\x1b[31mbad"]
    inspect = f"image inspect --format {{{{.Id}}}} {recipe.reference}"
    assert (folder / "calls").read_text().splitlines() == [
        inspect,
        f"build --tag {recipe.reference} -",
        inspect,
    ]
    with tarfile.open(folder / "built") as tar:
        assert tar.getnames() == [entry.name for entry in recipe.context.entries]


def test_a_build_that_fails_says_dockers_last_lines(
    job: ReadJob, docker: Callable[[int], Path]
) -> None:
    docker(1)
    recipe = make_recipe(job("base: base"))
    with pytest.raises(RsctlError) as caught:
        builder.build(recipe, lambda _line: None)
    [finding] = caught.value.findings
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert finding.message == (
        f"docker could not build {recipe.reference}; its last lines:\n"
        "  Step 1/1\n  progress\r\x1b[31mbad"
    )


def test_a_file_that_goes_while_the_context_is_written(
    job: ReadJob, docker: Callable[[int], Path], tmp_path: Path
) -> None:
    docker(0)
    recipe = make_recipe(job("base: base"))
    (tmp_path / "train.py").unlink()
    with pytest.raises(RsctlError, match="cannot copy the build's files") as caught:
        builder.build(recipe, lambda _line: None)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
