"""Which builder is taken, and what is said where it is not there."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.builder import select_builder
from rsctl.images.builder_detection import require_local_images

from .engines import HAS_BUILDX, NO_BUILDX, PODMAN, Install, versions


@pytest.mark.parametrize(
    ("programs", "wish", "name"),
    [
        ({"docker": [versions(), HAS_BUILDX]}, None, "buildx"),
        ({"docker": [versions("20.10.24", "20.10.24"), HAS_BUILDX]}, "1", "buildx"),
        ({"docker": [versions("20.10.24+dfsg1", "20.10.24+dfsg1"), NO_BUILDX]}, None, "buildkit"),
        ({"docker": [versions("19.03.1", "18.09.0"), NO_BUILDX]}, "1", "buildkit"),
        ({"docker": [versions("18.06.3-ce", "19.03.0"), NO_BUILDX]}, None, "classic"),
        ({"docker": [versions("20.10.24", "18.06.3-ce"), NO_BUILDX]}, None, "classic"),
        ({"docker": [versions(), NO_BUILDX]}, None, "classic"),
        ({"docker": [versions(), HAS_BUILDX]}, "0", "classic"),
        ({"docker": [versions("20.10.24"), NO_BUILDX]}, "false", "classic"),
        ({"docker": [versions("20.10.24"), NO_BUILDX]}, "TRUE", "buildkit"),
        ({"docker": [versions("22.06.0-beta"), NO_BUILDX]}, None, "buildkit"),
        ({"docker": [versions("23.0.0"), NO_BUILDX]}, None, "classic"),
        ({"docker": [versions("dev", "master"), NO_BUILDX]}, None, "buildkit"),
        ({"docker": [versions(), HAS_BUILDX], "podman": PODMAN}, None, "buildx"),
        ({"podman": PODMAN}, None, "podman"),
        ({"docker": [versions(engine=None)], "podman": PODMAN}, None, "podman"),
        # podman-docker: podman under docker's name.
        ({"docker": [versions("4.3.1", None)], "podman": PODMAN}, None, "podman"),
    ],
)
def test_auto_takes_the_first_that_works(
    programs: dict[str, Any],
    wish: str | None,
    name: str,
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(**programs)
    if wish:
        monkeypatch.setenv("DOCKER_BUILDKIT", wish)
    assert select_builder().name == name


START = "start it, and check that `docker info` works for your user"


@pytest.mark.parametrize(
    ("programs", "wanted", "message", "remedy"),
    [
        (
            {"podman": [("info", "", "Error: no\n", 125)]},
            "auto",
            "the docker command is not installed",
            "install Docker or Podman",
        ),
        (
            {"docker": [("version", '{"Client": {"Version": "5"}, "Server": null}', "", 0)]},
            "buildkit",
            "no Docker engine answers: its answer is not from docker",
            START,
        ),
        (
            {"docker": [("version", "[" * 100_000, "", 0)]},
            "buildx",
            "no Docker engine answers: its answer is not from docker",
            START,
        ),
        ({}, "auto", "the docker command is not installed", "install Docker or Podman"),
        ({}, "podman", "the podman command is not installed", "install Podman or Docker"),
        ({}, "buildx", "the docker command is not installed", "install Docker or Podman"),
        (
            {"docker": [versions(engine=None)]},
            "auto",
            "no Docker engine answers: Cannot connect to the Docker daemon at "
            "unix:///run/docker.sock.",
            "start it, and check that `docker info` works for your user",
        ),
        (
            {"docker": [("version", "what?", "", 0)]},
            "classic",
            "no Docker engine answers: its answer is not from docker",
            "start it, and check that `docker info` works for your user",
        ),
        (
            {"docker": [versions(), NO_BUILDX]},
            "buildx",
            "this docker has no buildx plugin",
            "install Docker's buildx plugin, or use another builder",
        ),
        (
            {"docker": [versions(), NO_BUILDX]},
            "buildkit",
            "docker 28.2.2 has BuildKit only in its buildx plugin, which is not installed",
            "install Docker's buildx plugin",
        ),
        (
            {"docker": [versions(), HAS_BUILDX]},
            "buildkit",
            "docker 28.2.2 has BuildKit only in its buildx plugin",
            "use builder buildx",
        ),
        (
            {"docker": [versions("18.06.3-ce", "18.06.3-ce"), NO_BUILDX]},
            "buildkit",
            "docker 18.06.3-ce with engine 18.06.3-ce has no BuildKit",
            "install Docker 18.09 or newer",
        ),
        (
            {"podman": [("info", "", "Error: cannot set up namespace\n", 125)]},
            "podman",
            "podman does not work here: Error: cannot set up namespace",
            "check that `podman info` works for your user",
        ),
    ],
)
def test_a_builder_that_is_not_there(
    programs: dict[str, Any], wanted: str, message: str, remedy: str, install: Install
) -> None:
    install(**programs)
    with pytest.raises(RsctlError) as caught:
        select_builder(wanted)
    [finding] = caught.value.findings
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert (finding.message, finding.remedy) == (message, remedy)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Name: ci\nDriver: remote\n", "ci"),
        ("Driver:   remote\n", "of buildx"),
        ("Name: default\nDriver: docker\n", None),
        ("ERROR: no builder\n", None),
    ],
)
def test_a_builder_that_knows_registries_only(
    said: str, name: str | None, install: Install
) -> None:
    install(docker=[("buildx inspect", said, "", 0)])
    require_local_images("classic", "base:1", "a.key")
    if name is None:
        require_local_images("buildx", "base:1", "a.key")
        return
    with pytest.raises(RsctlError) as caught:
        require_local_images("buildx", "base:1", "a.key")
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert caught.value.findings == (
        error(
            "builder",
            f"the builder {name} has driver remote, which cannot access base:1: that image is only "
            "in the engine",
            "select the engine's own builder: docker buildx use default, or BUILDX_BUILDER=default",
            "a.key",
        ),
    )


def test_buildkit_that_the_environment_wants_and_docker_has_not(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(docker=[versions(), NO_BUILDX])
    monkeypatch.setenv("DOCKER_BUILDKIT", "1")
    with pytest.raises(RsctlError) as caught:
        select_builder()
    [finding] = caught.value.findings
    assert finding.message == (
        "DOCKER_BUILDKIT=1 requires BuildKit: docker 28.2.2 has BuildKit only in its buildx "
        "plugin, which is not installed"
    )
    assert finding.remedy == "install Docker's buildx plugin, or unset DOCKER_BUILDKIT"
