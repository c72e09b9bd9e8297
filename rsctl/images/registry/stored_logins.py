"""Credentials that docker and podman have stored; rsctl reads and never writes them."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rsctl.images.registry.credentials import IDENTITY_TOKEN, Login
from rsctl.images.registry.names import DOCKER_HUB, ImageRepository
from rsctl.user_folders import docker_folder, home_folder

_HUB_KEY = "https://index.docker.io/v1/"
_HELPER = re.compile("[A-Za-z0-9._-]+")
_HELPER_SECONDS = 60


def stored_login(repository: ImageRepository) -> Login | None:
    """The credentials for a repository, or None. Like docker, it ignores entries that it cannot
    read.
    """
    for config in _configurations():
        found = _from_helper(config, repository) or _from_file(config, repository)
        if found:
            return found
    return None


def _configurations() -> Iterator[dict[str, Any]]:
    """The files of docker, then of podman, each in the order in which it reads them."""
    yield _decoded(os.environ.get("DOCKER_AUTH_CONFIG", ""))
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    home = Path(os.environ.get("XDG_CONFIG_HOME") or home_folder() / ".config")
    podman = Path(runtime) / "containers" / "auth.json"
    yield _read(docker_folder() / "config.json")
    yield _read(Path(os.environ.get("REGISTRY_AUTH_FILE") or podman))
    yield _read(home / "containers" / "auth.json")


def _read(path: Path) -> dict[str, Any]:
    try:
        return _decoded(path.read_bytes())
    except OSError:
        return {}


def _decoded(text: str | bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _table(config: dict[str, Any], key: str) -> dict[str, Any]:
    found = config.get(key)
    return found if isinstance(found, dict) else {}


def _from_helper(config: dict[str, Any], repository: ImageRepository) -> Login | None:
    helpers = _table(config, "credHelpers")
    key = _HUB_KEY if repository.host == DOCKER_HUB else repository.host
    if repository.host in helpers:  # podman's name of Docker Hub is its host
        key = repository.host
    name = helpers.get(key) or config.get("credsStore")
    if not isinstance(name, str) or not _HELPER.fullmatch(name):
        return None
    try:
        done = subprocess.run(
            [f"docker-credential-{name}", "get"],
            input=key.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_HELPER_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    answer = _decoded(done.stdout)
    return _login(repository, answer.get("Username"), answer.get("Secret"))


def _from_file(config: dict[str, Any], repository: ImageRepository) -> Login | None:
    entries = {_name(key): entry for key, entry in _table(config, "auths").items()}
    for name in _names(repository):
        entry = entries.get(name)
        if isinstance(entry, dict):
            found = _from_entry(entry, repository)
            if found:
                return found
    return None


def _name(key: str) -> str:
    """A key of `auths`: docker's may be URLs, podman's may contain a path."""
    if key == _HUB_KEY:
        return DOCKER_HUB
    scheme, separator, rest = key.partition("://")
    return rest.partition("/")[0] if separator else scheme.rstrip("/")


def _names(repository: ImageRepository) -> Iterator[str]:
    """The repository, its parent paths, and last its host: the most specific entry counts."""
    name = str(repository)
    while name:
        yield name
        name = name.rpartition("/")[0]


def _from_entry(entry: dict[str, Any], repository: ImageRepository) -> Login | None:
    if entry.get("identitytoken"):
        return _login(repository, IDENTITY_TOKEN, entry["identitytoken"])
    try:
        pair = base64.b64decode(str(entry.get("auth") or "")).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    user, _, secret = pair.rstrip("\0").partition(":")
    return _login(repository, user or entry.get("username"), secret or entry.get("password"))


def _login(repository: ImageRepository, user: object, secret: object) -> Login | None:
    if isinstance(user, str) and isinstance(secret, str) and secret:
        return Login(repository.host, user, secret)
    return None
