"""The image of rsctl for pipelines, built from this tree's wheel on the test base."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.docker import BASE, needs_docker

from .pipelines import FOLDER, TOP

pytestmark = [needs_docker, pytest.mark.timeout(600)]
NAME = "rsctl-test-ci-image:1"


def run(*argv: str | Path, **env: str) -> str:
    done = subprocess.run(
        [*map(str, argv)], env={**os.environ, **env}, capture_output=True, text=True, cwd=TOP
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("image")
    shutil.copy(FOLDER / "image" / "Dockerfile", folder)
    shutil.copy(TOP / "constraints" / "base.txt", folder)
    wheel = (TOP / ".ci" / "uv", "build", "--wheel", "--quiet", "--out-dir", folder, TOP)
    run(*wheel, RSCTL_CORE="none", UV_BUILD_CONSTRAINT=str(TOP / "constraints" / "base.txt"))
    # Of what pip would compile, the commands below import little.
    (folder / "base").write_text(f"FROM {BASE}\nENV PIP_COMPILE=0\n")
    build = ["docker", "build", "--network", "host"]
    run(*build, "--tag", f"{NAME}-base", "--file", folder / "base", folder)
    run(*build, "--build-arg", f"BASE={NAME}-base", "--tag", NAME, folder)
    yield NAME
    subprocess.run(["docker", "image", "rm", "--force", NAME, f"{NAME}-base"], capture_output=True)


def test_a_pipelines_shell_finds_rsctl_in_the_image(image: str, tmp_path: Path) -> None:
    """As CI systems start it: a shell, the checkout as its folder."""
    shutil.copytree(FOLDER / "bench", tmp_path / "bench")
    script = (
        "set -e; rsctl --version; git --version; rsctl validate bench/job.yaml; "
        "rsctl bench run bench/job.yaml --set run.args.width=64 --set run.args.steps=20 "
        "--repeat 1; "
        "rsctl report @last --output report.html; test -s report.html"
    )
    mount = f"{tmp_path}:/checkout"
    shown = run(
        *("docker", "run", "--rm", "--network", "none", "--volume", mount, "--workdir"),
        *("/checkout", "--env", "CI=true", "--env", f"RSCTL_BASE={BASE}", image),
        *("bash", "-c", script),
    )
    assert shown.startswith("rsctl, version ")
    assert "THROUGHPUT" in shown
    help_text = run("docker", "run", "--rm", "--network", "none", image)
    assert help_text.startswith("Usage: rsctl")
