"""`rsctl build-image --push` against a real registry on loopback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit import command_forks
from tests.kit.docker import needs_registry

from .conftest import Registry

pytestmark = needs_registry


@pytest.fixture
def build(tmp_path: Path, command_server: Path) -> Callable[..., Any]:
    """`rsctl build-image --push` of a job on a tiny base; what it prints as JSON."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "hello").write_text("hello\n")

    def run(repository: str, base: str) -> Any:
        image = {"base": base, "source": "source", "repository": repository}
        job = {"name": "tiny", "run": {"command": ["x"], "launcher": "none"}, "image": image}
        (tmp_path / "job.yaml").write_text(json.dumps(job))
        command = ("build-image", "job.yaml", "-t", "compose", "--push", "-o", "json")
        done = command_forks.run(command_server, *command, cwd=tmp_path)
        assert done.code == 0, done.err
        return done.json

    return run


def test_an_image_is_pushed_once(
    start_registry: Callable[..., Registry],
    make_image: Callable[..., None],
    build: Callable[..., Any],
) -> None:
    repository = start_registry().repository()
    make_image("rsctl-r/base:1")
    first = build(repository, "rsctl-r/base:1")
    assert (first["built"], first["pushed"]) == (True, True)
    assert first["tag"].startswith(f"{repository}:")
    assert first["digest"].startswith("sha256:")

    again = build(repository, "rsctl-r/base:1")
    assert (again["built"], again["pushed"], again["digest"]) == (False, False, first["digest"])

    subprocess.run(["docker", "rmi", first["tag"]], check=True, capture_output=True)
    elsewhere = build(repository, "rsctl-r/base:1")  # as on a machine that never built it
    assert (elsewhere["built"], elsewhere["digest"]) == (False, first["digest"])
