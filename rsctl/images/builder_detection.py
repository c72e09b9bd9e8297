"""Detects which image builders this machine has."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.images.commands import last_line, run_command

_BUILDX_ONLY = (23, 0)  # from this client on BuildKit is reached through the plugin alone
_BUILDKIT_SINCE = (18, 9)
_GET_BUILDX = "install Docker's buildx plugin"


def detect_builder(wanted: str) -> str:
    """The name of the requested builder or, with `auto`, of the first available one.

    Raises RsctlError, which names the missing program.
    """
    docker = _Docker()
    if wanted == "auto":
        return _first(docker)
    checks: dict[str, Callable[[], Finding | None]] = {
        "buildx": docker.missing_buildx,
        "buildkit": docker.missing_buildkit,
        "classic": docker.missing_docker,
        "podman": _missing_podman,
    }
    finding = checks[wanted]()
    if finding:
        raise RsctlError(ExitCode.ENVIRONMENT, finding)
    return wanted


def require_local_images(builder: str, image: str, key: str) -> None:
    """Raise RsctlError if a builder cannot build on an image that only the engine has.

    buildx with another driver than `docker` works beside the engine, and knows registries only.
    """
    if builder != "buildx":
        return
    done = run_command(["docker", "buildx", "inspect"])
    found = re.search(r"^Driver:\s*(\S+)", done.stdout, re.MULTILINE)
    if found and found[1] != "docker":
        name = re.search(r"^Name:\s*(\S+)", done.stdout, re.MULTILINE)
        message = (
            f"the builder {name[1] if name else 'of buildx'} has driver {found[1]}, which cannot "
            f"access {image}: that image is only in the engine"
        )
        remedy = (
            "select the engine's own builder: docker buildx use default, or BUILDX_BUILDER=default"
        )
        raise RsctlError(ExitCode.ENVIRONMENT, error("builder", message, remedy, key))


def _first(docker: _Docker) -> str:
    missing = docker.missing_docker()
    if missing is None:
        return _first_of_docker(docker)
    if _missing_podman() is None:
        return "podman"
    raise RsctlError(ExitCode.ENVIRONMENT, missing)


def _first_of_docker(docker: _Docker) -> str:
    preference = os.environ.get("DOCKER_BUILDKIT", "").lower()
    if preference in ("0", "false"):
        return "classic"
    if docker.missing_buildx() is None:
        return "buildx"
    missing = docker.missing_buildkit()
    if missing is None:
        return "buildkit"
    if preference in ("1", "true"):
        message = f"DOCKER_BUILDKIT={preference} requires BuildKit: {missing.message}"
        remedy = f"{_GET_BUILDX}, or unset DOCKER_BUILDKIT"
        raise RsctlError(ExitCode.ENVIRONMENT, error("builder", message, remedy))
    return "classic"


class _Versions(NamedTuple):
    client: str
    engine: str


class _Docker:
    """The properties of docker on this machine; queried once."""

    def missing_docker(self) -> Finding | None:
        """Why docker cannot build at all."""
        return None if isinstance(self._versions, _Versions) else self._versions

    def missing_buildx(self) -> Finding | None:
        """Why there is no buildx."""
        if self.missing_docker() or self._has_buildx:
            return self.missing_docker()
        message = "this docker has no buildx plugin"
        return error("builder", message, f"{_GET_BUILDX}, or use another builder")

    def missing_buildkit(self) -> Finding | None:
        """Why the docker command does not have BuildKit."""
        versions = self._versions
        if not isinstance(versions, _Versions):
            return versions
        client, engine = _numbers(versions.client), _numbers(versions.engine)
        if client >= _BUILDX_ONLY:
            message = f"docker {versions.client} has BuildKit only in its buildx plugin" + (
                "" if self._has_buildx else ", which is not installed"
            )
            remedy = "use builder buildx" if self._has_buildx else _GET_BUILDX
            return error("builder", message, remedy)
        if min(client, engine) < _BUILDKIT_SINCE:
            message = f"docker {versions.client} with engine {versions.engine} has no BuildKit"
            return error("builder", message, "install Docker 18.09 or newer")
        return None

    @cached_property
    def _has_buildx(self) -> bool:
        return run_command(["docker", "buildx", "version"]).returncode == 0

    @cached_property
    def _versions(self) -> _Versions | Finding:
        if shutil.which("docker") is None:
            return error(
                "builder", "the docker command is not installed", "install Docker or Podman"
            )
        done = run_command(["docker", "version", "--format", "{{json .}}"])
        versions = _decoded(done.stdout)
        if done.returncode or versions is None:
            reason = last_line(done) if done.returncode else "its answer is not from docker"
            remedy = "start it, and check that `docker info` works for your user"
            return error("engine", f"no Docker engine answers: {reason}", remedy)
        return versions


def _decoded(text: str) -> _Versions | None:
    """The versions of docker's answer; podman under docker's name names no engine."""
    try:
        record: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        return _Versions(str(record["Client"]["Version"]), str(record["Server"]["Version"]))
    except (msgspec.DecodeError, RecursionError, KeyError, TypeError):
        return None


def _numbers(version: str) -> tuple[int, int]:
    found = re.match(r"(\d{1,6})\.(\d{1,6})", version)
    return (int(found[1]), int(found[2])) if found else _BUILDKIT_SINCE


def _missing_podman() -> Finding | None:
    if shutil.which("podman") is None:
        return error("builder", "the podman command is not installed", "install Podman or Docker")
    done = run_command(["podman", "info", "--format", "{{.Version.Version}}"])
    if done.returncode == 0:
        return None
    remedy = "check that `podman info` works for your user"
    return error("engine", f"podman does not work here: {last_line(done)}", remedy)
