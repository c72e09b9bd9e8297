"""`rsctl build-image` up to where a builder would start; builds are in tests/images."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rsctl.api import ImageChange, ImageResult
from rsctl.cli import build_image
from rsctl.findings import error, note
from rsctl.images.engine import Layer

from .conftest import Cli

JOB = """name: job
run: {script: train.py, launcher: once}
image: {base: "python:3.12-slim", apt: [git]}
"""
DOCKERFILE = """FROM python:3.12-slim
USER root
RUN apt-get update \\
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \\
      git \\
 && rm -rf /var/lib/apt/lists/*
COPY rsctl-python /usr/local/bin/
COPY rsctl-launch /usr/local/bin/
COPY runtime/ /opt/rsctl/
ARG BASE_USER=0
USER ${BASE_USER}
ENTRYPOINT ["rsctl-launch"]
RUN rsctl-launch --check --transport none --launcher once
COPY --chown=${BASE_USER} source/ /app/
WORKDIR /app
"""


@pytest.fixture
def job(tmp_path: Path) -> str:
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yaml").write_text(JOB)
    return str(tmp_path / "job.yaml")


def test_print_shows_the_dockerfile_and_needs_no_builder(
    rsctl: Cli, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = rsctl("build-image", job, "--print")
    assert (done.code, done.out, done.err) == (0, DOCKERFILE, "")


def test_print_in_json_has_what_is_known_before_a_build(rsctl: Cli, job: str) -> None:
    shown = rsctl("build-image", job, "--print", "-t", "vertex", "-o", "json").json
    assert shown["dockerfile"] == DOCKERFILE
    assert (shown["transport"], shown["platform"]) == ("none", "linux/amd64")
    assert shown["tag"].startswith("rsctl/job:")
    assert [finding["code"] for finding in shown["findings"]] == ["transport"]


def test_the_plan_has_the_tag_that_is_built(rsctl: Cli, job: str) -> None:
    planned = rsctl("plan", job, "-t", "compose", "-o", "json").json["image"]
    printed = rsctl("build-image", job, "--print", "-t", "compose", "-o", "json").json
    assert planned == {"tag": printed["tag"], "transport": printed["transport"]}


@pytest.mark.parametrize(
    ("arguments", "image", "message"),
    [
        (
            [],
            "uri: there",
            "image.uri: image.uri is used without changes, so there is nothing to build",
        ),
        ([], "apt: [git]", "image: target process needs an image"),
        (
            ["--push", "-t", "vertex"],
            "base: x",
            "image: image.repository: there is no repository to push the image of target vertex to",
        ),
        (
            ["--builder", "cloud", "-t", "vertex"],
            "base: x",
            "image: image.repository: there is no repository to push the image of target vertex to",
        ),
        (
            ["-t", "vertex"],
            "base: x, transport: efa",
            "image.transport: efa works on sagemaker, not on vertex",
        ),
    ],
)
def test_what_cannot_be_built_is_an_error_with_its_place(
    rsctl: Cli, job: str, arguments: list[str], image: str, message: str
) -> None:
    text = JOB.replace('base: "python:3.12-slim", apt: [git]', image)
    Path(job).write_text(text.replace("  run", "run"))
    done = rsctl("build-image", job, *arguments)
    assert done.code == 2
    assert done.out == ""
    assert message.removeprefix("image: ") in done.err


def test_a_builder_that_is_not_there(rsctl: Cli, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = rsctl("build-image", job, "-t", "compose")
    assert (done.code, done.out) == (3, "")
    assert "error: " in done.err
    assert "    -> " in done.err


def test_the_cloud_builds_for_clouds_only(rsctl: Cli, job: str) -> None:
    done = rsctl(
        "build-image",
        job,
        "-t",
        "compose",
        "--builder",
        "cloud",
        "--set",
        "image.repository=a.example/b",
    )
    assert done.code == 2
    assert "target compose has no cloud service that builds images" in done.err


DOCKER = """#!/bin/sh
case "$*" in
  version*) echo '{"Client": {"Version": "28.2.2"}, "Server": {"Version": "28.2.2"}}';;
  "image inspect python:3.12-slim")
    echo '[{"Id": "1", "Created": "", "Size": 1, "Os": "linux", "Architecture": "amd64"}]';;
  "image inspect "*) echo "No such image" >&2; exit 1;;
  "buildx build "*) echo "process $$"; exec sleep 600;;
esac
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_build_ends_with_its_command(job: str, tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = [sys.executable, "-m", "rsctl", "build-image", job, "-t", "compose"]
    with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True) as building:
        assert building.stderr is not None
        words = next(line for line in building.stderr if "process" in line).split()
        building.send_signal(number)
        assert building.wait() == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(words[-1]), 0)


class FakeImage:
    """An image whose build has a result of our choice."""

    findings = (note("image", "a note"),)

    def __init__(self, **result: Any) -> None:
        known = {"tag": "team/image:1", "transport": "rsctl", "platform": None, "seconds": 61.0}
        self.result = ImageResult(**{**known, "changes": None, **result})
        self.asked: dict[str, Any] = {}

    def prepare(self, _file: object, target: str | None, **asked: Any) -> FakeImage:
        self.asked = {"target": target, **asked}
        return self

    def build(self, show: Callable[[object], None]) -> ImageResult:
        show(error("build", "a step failed", "look"))
        return self.result


LAYERS = [Layer(1, "RUN a"), Layer(0, "ENV b"), Layer(5, "COPY c")]
CHANGES = [ImageChange(f"f{n}", "added") for n in range(7)]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({}, "unchanged, transport rsctl"),
        ({"built": True}, "built in 1:01, transport rsctl"),
        ({"pushed": True, "seconds": 1.25}, "pushed in 1.2 s, transport rsctl"),
        (
            {"built": True, "pushed": True, "size": 2_000_000, "layers": LAYERS},
            "built and pushed in 1:01, 2 MB in 2 layers, transport rsctl",
        ),
        ({"changes": []}, "unchanged, transport rsctl"),
        (
            {"changes": CHANGES},
            "unchanged, transport rsctl; since the last build: f0 added, f1 added, f2 added, "
            "f3 added, f4 added and 2 more",
        ),
    ],
)
def test_what_was_built(
    rsctl: Cli, job: str, monkeypatch: pytest.MonkeyPatch, result: dict[str, Any], words: str
) -> None:
    fake = FakeImage(**result)
    monkeypatch.setattr(build_image, "prepare_image", fake.prepare)
    done = rsctl("build-image", job)
    assert (done.code, done.out) == (0, "team/image:1\n")
    assert done.err == f"note: a note\nerror: a step failed\n    -> look\n{words}\n"
    assert fake.asked == {"target": None, "push": False, "builder": "auto"}
    shown = rsctl(
        "build-image", job, "--push", "--builder", "podman", "-t", "process", "-o", "json"
    )
    assert (shown.json["tag"], shown.json["findings"][0]["message"]) == ("team/image:1", "a note")
    assert fake.asked == {"target": "process", "push": True, "builder": "podman"}
    assert rsctl("build-image", job, "-q").err == "error: a step failed\n    -> look\n"
