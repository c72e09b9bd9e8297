"""What target compose says of a machine without Docker, or with a part of it."""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path

import pytest

from rsctl.findings import Finding, RsctlError, error
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.targets.local import containers
from rsctl.targets.local.containers import ContainerBackend
from rsctl.targets.local.docker import missing, require

# Docker's words since 29: https://github.com/hiero-ledger/solo/issues/3920.
ABSENT = (
    "failed to connect to the docker API at unix:///x; check if the path is correct and if the "
    "daemon is running: dial unix /x: connect: no such file or directory"
)

# What `docker version` prints for Podman 4.3.1: its podman-docker, and Docker's own program.
PODMAN = (
    "Client:       Podman Engine\nVersion:      4.3.1",
    "Client:\n Version:           28.2.2\n\nServer: linux/amd64/debian-12\n Podman Engine:\n"
    "  Version:          4.3.1",
)


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        (
            {},
            error(
                "docker",
                "the docker command is not installed",
                "install Docker, or use --target process",
            ),
        ),
        (
            {"docker": "echo first >&2; echo ' Is the daemon running?' >&2; echo >&2; exit 1"},
            error(
                "docker",
                "no Docker engine answers: Is the daemon running?",
                "start it, or use --target process",
            ),
        ),
        (
            {"docker": "[ $1 = version ]"},
            error(
                "compose", "docker compose is not installed", "install the Docker compose plugin"
            ),
        ),
        *(
            (
                {"docker": f"[ $1 != version ] || echo '{shown}'"},
                error(
                    "docker",
                    "the docker command uses Podman, which does not accept the containers of "
                    "target compose",
                    "use Docker, or --target process",
                ),
            )
            for shown in PODMAN
        ),
        ({"docker": "[ $1 = version ]", "docker-compose": "[ $1 = version ]"}, None),
        ({"docker": "[ $1 = version ] || [ $1 = compose ]"}, None),
    ],
)
def test_what_is_missing_for_containers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: dict[str, str],
    expected: Finding | None,
) -> None:
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert missing() == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ("Error: No such object: rsctl-r-worker-0", "its container no longer exists"),
        (
            "Cannot connect to the Docker daemon at unix:///run/docker.sock. Is it running?",
            "the Docker engine no longer answers: Cannot connect to the Docker daemon at "
            "unix:///run/docker.sock. Is it running?",
        ),
        (ABSENT, f"the Docker engine no longer answers: {ABSENT}"),
    ],
)
def test_an_engine_that_ends_under_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str, reason: str
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho '{problem}' >&2; exit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    description = RunDescription(
        run="r", target="compose", request={"compose": {}}, replicas=["worker-0"]
    )
    exited = ContainerBackend(RunFolder("r"), description, {}).exit_of("worker-0", 1)
    assert (exited.exit_code, exited.reason) == (1, reason)


@pytest.mark.parametrize(("answers", "kept"), [(2, False), (3, False), (None, True)])
def test_containers_of_an_engine_that_restarts_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: int | None, kept: bool
) -> None:
    """The engine answers the command of this number again, or none."""
    calls, docker = tmp_path / "calls", tmp_path / "docker"
    docker.write_text(
        "#!/bin/sh\n"
        "[ $1$2 != composeversion ] || exit 0\n"
        f"echo $1 >> {calls}\n"
        f"[ $(wc -l < {calls}) = {answers or 0} ] || {{ echo '{ABSENT}' >&2; exit 1; }}\n"
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(containers, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(containers, "monotonic", count(0, 12).__next__)
    description = RunDescription(
        run="r", target="compose", request={"compose": {}}, replicas=["worker-0"]
    )
    backend = ContainerBackend(RunFolder("r"), description, {})
    backend.exit_of("worker-0", 1)
    if not kept:
        return backend.clean_up()
    with pytest.raises(RsctlError) as caught:
        backend.clean_up()
    [finding] = caught.value.findings
    assert finding.message == (
        "containers and a network of r may remain: docker compose --project-name rsctl-r: " + ABSENT
    )
    assert finding.remedy == (
        "start it on the node, and check that `docker info` or `podman info` works for the user; "
        "then: docker compose --project-name rsctl-r --env-file /dev/null down --volumes "
        "--timeout 0"
    )
    assert calls.read_text().split() == ["inspect", *["compose"] * 3]  # after 0, 12 and 24 s
    with pytest.raises(RsctlError):  # it waits once
        backend.clean_up()
    assert calls.read_text().split() == ["inspect", *["compose"] * 4]


@pytest.mark.parametrize(
    ("problem", "remedy"),
    [
        (
            "failed to create network x: Error response from daemon: all predefined address pools "
            "have been fully subnetted",
            "restart the engine, remove unused networks (`docker network prune`), or use the host's"
            " network",
        ),
        (
            "Error response from daemon: pull access denied for x, repository does not exist or may"
            " require 'docker login'",
            "check image.uri, and that you are logged in to its registry",
        ),
        (
            ABSENT,
            "start it on the node, and check that `docker info` or `podman info` works for the "
            "user",
        ),
        (
            "Error response from daemon: Range of CPUs is from 0.01 to 2.00, as there are only 2 "
            "CPUs available",
            "change the container's number of cores or its memory, on target compose "
            "targets.compose.cpus and targets.compose.memory",
        ),
        ("Error response from daemon: something new", None),
    ],
)
def test_a_command_of_docker_that_fails_has_the_remedy_of_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str, remedy: str | None
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\necho "{problem}" >&2; exit 1\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RsctlError) as caught:
        require(["docker", "compose", "create"])
    [finding] = caught.value.findings
    assert (finding.message, finding.remedy) == (f"docker compose create: {problem}", remedy)


def test_an_engine_that_does_not_have_a_folder_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on another machine (DOCKER_HOST), or in another container of a CI job."""
    folder = tmp_path / "runs" / "a b"
    folder.mkdir(parents=True)
    problem = (
        'Error response from daemon: invalid mount config for type "bind": bind source path does '
        f"not exist: {folder}"
    )
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho '{problem}' >&2; exit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RsctlError) as caught:
        require(["docker", "compose", "create"])
    [finding] = caught.value.findings
    assert finding.message == f"docker compose create: {problem}"
    assert finding.remedy == (
        "this machine has that folder, but the Docker engine does not: use an engine on this "
        "machine, use --target process, or set RSCTL_HOME to a folder that both have at the same "
        "path"
    )
    folder.rmdir()
    with pytest.raises(RsctlError) as missed:
        require(["docker", "compose", "create"])
    assert str(missed.value.findings[0].remedy).startswith("correct the path")
    # One that cannot be looked at, as in a folder of another user.
    docker.write_text(
        f"#!/bin/sh\necho 'bind source path does not exist: /{'a' * 300}' >&2; exit 1\n"
    )
    with pytest.raises(RsctlError, match="does not exist"):
        require(["docker", "compose", "create"])
