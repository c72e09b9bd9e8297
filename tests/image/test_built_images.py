"""The images that rsctl built, as a real engine lists and removes them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from uuid import uuid4

import pytest

from rsctl.image.built_images import BuiltImage, built_images, find_engine, remove_image
from rsctl.image.labels import LABEL
from tests.kit.docker import BASE, needs_docker

pytestmark = needs_docker


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
