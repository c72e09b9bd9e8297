"""Which builder this machine has."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.image.process import ask, said

_BUILDX_ONLY = (23, 0)  # from this client on BuildKit is reached through the plugin alone
_BUILDKIT_SINCE = (18, 9)
_GET_BUILDX = "install Docker's buildx plugin"


def choose(wanted: str) -> str:
    """The name of the builder that is wanted and there, or with `auto` of the first that is there.

    Raises RsctlError, which says what is missing.
    """
    docker = _Docker()
    if wanted == "auto":
        return _first(docker)
    obstacles: dict[str, Callable[[], Finding | None]] = {
        "buildx": docker.obstacle_to_buildx,
        "buildkit": docker.obstacle_to_buildkit,
        "classic": docker.obstacle,
        "podman": _obstacle_to_podman,
    }
    finding = obstacles[wanted]()
    if finding:
        raise RsctlError(ExitCode.ENVIRONMENT, finding)
    return wanted


def _first(docker: _Docker) -> str:
    obstacle = docker.obstacle()
    if obstacle is None:
        return _first_of_docker(docker)
    if _obstacle_to_podman() is None:
        return "podman"
    raise RsctlError(ExitCode.ENVIRONMENT, obstacle)


def _first_of_docker(docker: _Docker) -> str:
    wish = os.environ.get("DOCKER_BUILDKIT", "").lower()
    if wish in ("0", "false"):
        return "classic"
    if docker.obstacle_to_buildx() is None:
        return "buildx"
    obstacle = docker.obstacle_to_buildkit()
    if obstacle is None:
        return "buildkit"
    if wish in ("1", "true"):
        message = f"DOCKER_BUILDKIT={wish} asks for BuildKit: {obstacle.message}"
        remedy = f"{_GET_BUILDX}, or unset DOCKER_BUILDKIT"
        raise RsctlError(ExitCode.ENVIRONMENT, error("builder", message, remedy))
    return "classic"


class _Versions(NamedTuple):
    client: str
    engine: str


class _Docker:
    """What is known of docker here; asked for once."""

    def obstacle(self) -> Finding | None:
        """Why docker cannot build at all."""
        return None if isinstance(self._versions, _Versions) else self._versions

    def obstacle_to_buildx(self) -> Finding | None:
        """Why there is no buildx."""
        if self.obstacle() or self._has_buildx:
            return self.obstacle()
        message = "this docker has no buildx plugin"
        return error("builder", message, f"{_GET_BUILDX}, or use another builder")

    def obstacle_to_buildkit(self) -> Finding | None:
        """Why the docker command has no BuildKit of its own."""
        versions = self._versions
        if not isinstance(versions, _Versions):
            return versions
        client, engine = _numbers(versions.client), _numbers(versions.engine)
        if client >= _BUILDX_ONLY:
            message = f"docker {versions.client} has BuildKit only in its buildx plugin" + (
                "" if self._has_buildx else ", which is not here"
            )
            remedy = "use builder buildx" if self._has_buildx else _GET_BUILDX
            return error("builder", message, remedy)
        if min(client, engine) < _BUILDKIT_SINCE:
            message = f"docker {versions.client} with engine {versions.engine} has no BuildKit"
            return error("builder", message, "install Docker 18.09 or newer")
        return None

    @cached_property
    def _has_buildx(self) -> bool:
        return ask(["docker", "buildx", "version"]).returncode == 0

    @cached_property
    def _versions(self) -> _Versions | Finding:
        if shutil.which("docker") is None:
            return error("builder", "no docker command here", "install Docker or Podman")
        done = ask(["docker", "version", "--format", "{{json .}}"])
        versions = _decoded(done.stdout)
        if done.returncode or versions is None:
            words = said(done) if done.returncode else "its answer is not docker's"
            remedy = "start it, and see that `docker info` answers you"
            return error("engine", f"no Docker engine answers: {words}", remedy)
        return versions


def _decoded(text: str) -> _Versions | None:
    """The versions of docker's answer; podman under docker's name says nothing of an engine."""
    try:
        record: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        return _Versions(str(record["Client"]["Version"]), str(record["Server"]["Version"]))
    except (msgspec.DecodeError, RecursionError, KeyError, TypeError):
        return None


def _numbers(version: str) -> tuple[int, int]:
    found = re.match(r"(\d{1,6})\.(\d{1,6})", version)
    return (int(found[1]), int(found[2])) if found else _BUILDKIT_SINCE


def _obstacle_to_podman() -> Finding | None:
    if shutil.which("podman") is None:
        return _no_podman()
    done = ask(["podman", "info", "--format", "{{.Version.Version}}"])
    if done.returncode == 0:
        return None
    remedy = "see that `podman info` answers you"
    return error("engine", f"podman does not work here: {said(done)}", remedy)


def _no_podman() -> Finding:
    return error("builder", "no podman command here", "install Podman or Docker")
