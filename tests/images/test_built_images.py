"""The images that rsctl built, as a real engine lists and removes them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from rsctl.findings import RsctlError
from rsctl.images.built_images import BuiltImage, built_images, find_engine, remove_image
from rsctl.images.labels import LABEL
from tests.kit.docker import BASE, needs_docker

from .engines import Install, versions

ENGINE = f"""#!{sys.executable} -IS
import json, sys
if sys.argv[2] == "ls":
    print("sha256:1", "sha256:2", sep="\\n")
else:
    print(json.dumps([{{"Id": "sha256:1", "Created": "2026-01-31", "Size": 5, "RepoTags": ["a"]}}]))
    sys.exit("PROBLEM")
"""


REFUSES = ("version", "", "Cannot connect to the Docker daemon", 1)


def test_the_first_engine_that_answers_is_taken(install: Install) -> None:
    with pytest.raises(RsctlError, match="no container engine answers here"):
        find_engine()
    install(docker=[REFUSES])
    with pytest.raises(RsctlError, match="no container engine answers here"):
        find_engine()
    install(podman=[("version", "4.3.1", "", 0)])
    assert find_engine() == "podman"
    install(docker=[versions()])
    assert find_engine() == "docker"


def docker(*arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["docker", *arguments], input=stdin, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def built() -> Iterator[str]:
    """The name of an image with rsctl's label, under two tags."""
    name = f"rsctl-test-built:{uuid4().hex[:8]}"
    text = f"FROM {BASE}\nLABEL {LABEL}={uuid4().hex}\n"
    docker("build", "--network", "host", "--tag", name, "-", stdin=text)
    docker("tag", name, f"{name}-again")
    yield name
    subprocess.run(["docker", "image", "rm", "-f", name, f"{name}-again"], capture_output=True)


def found(name: str) -> list[BuiltImage]:
    return [image for image in built_images(find_engine()) if name in image.names]


@needs_docker
def test_only_what_has_the_label_is_listed_and_removed(built: str) -> None:
    [image] = found(built)
    assert sorted(image.tags) == [built, f"{built}-again"]
    assert image.size > 10**8
    assert found(BASE) == []
    container = docker("create", built, "true")
    reason = remove_image("docker", image)
    assert reason is not None
    assert "container" in reason
    docker("rm", container)
    assert remove_image("docker", found(f"{built}-again")[0]) is None
    assert found(built) == found(f"{built}-again") == []
    assert remove_image("docker", image) is None  # somebody was faster
    docker("image", "inspect", BASE)


@pytest.mark.parametrize(
    "problem",
    [
        "Error response from daemon: no such image: sha256:2: No such image: sha256:2",
        "Error: inspecting object: sha256:2: image not known",
    ],
)
def test_one_that_goes_meanwhile_is_not_listed(tmp_path: Path, problem: str) -> None:
    """As docker and podman say it."""
    (tmp_path / "docker").write_text(ENGINE.replace("PROBLEM", problem))
    (tmp_path / "docker").chmod(0o755)
    images = built_images(str(tmp_path / "docker"))
    assert images == [BuiltImage("sha256:1", "2026-01-31", 5, ["a"], [])]


def test_an_engine_that_fails_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "docker").write_text(ENGINE.replace("PROBLEM", "permission denied"))
    (tmp_path / "docker").chmod(0o755)
    with pytest.raises(RsctlError, match="docker image inspect: permission denied"):
        built_images(str(tmp_path / "docker"))
