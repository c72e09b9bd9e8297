"""The facts of this machine that a local plan depends on: cores, GPUs, paths, limits."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import msgspec

from rsctl.atomic_file import read_json
from rsctl.user_folders import docker_folder

_CAP_SYS_RESOURCE = 24


class LocalMachine(msgspec.Struct, frozen=True):
    """This machine: usable CPU cores, NVIDIA GPUs, the Python in use, its loopback.

    `may_lock_memory`: containers here can be given the unlimited memlock that RDMA needs.
    """

    cpus: int
    gpus: int
    python: str
    loopback: str
    may_lock_memory: bool


def this_host() -> LocalMachine:
    """The machine that this process runs on."""
    return LocalMachine(
        cpus=_usable_cpus(),
        gpus=_count_gpus(Path("/dev")),
        python=sys.executable,
        loopback="lo" if sys.platform == "linux" else "lo0",
        may_lock_memory=_may_lift_limits(),
    )


def _usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _may_lift_limits() -> bool:
    """Not where root itself, and so a Docker engine beside us, is confined (a nested container),
    nor where the engine is a user's own, whose limits are the user's (rootless docker).
    """
    if _has_own_engine():
        return False
    if os.geteuid() != 0:
        return True
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return True
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return not capabilities or bool(int(capabilities[1], 16) >> _CAP_SYS_RESOURCE & 1)


def _has_own_engine() -> bool:
    """Whether the socket of the Docker engine belongs to a user other than root."""
    scheme, _, socket = (os.environ.get("DOCKER_HOST") or _host_of_context()).partition("://")
    try:
        return scheme == "unix" and Path(socket).stat().st_uid != 0
    except OSError:
        return False


def _host_of_context() -> str:
    """The engine's address in the user's Docker context; empty if it has none."""
    configuration = read_json(docker_folder() / "config.json", _Configuration) or _Configuration()
    name = os.environ.get("DOCKER_CONTEXT") or configuration.currentContext
    if not name:
        return ""
    from hashlib import sha256  # few plans need it

    folder = docker_folder() / "contexts" / "meta" / sha256(os.fsencode(name)).hexdigest()
    context = read_json(folder / "meta.json", _Context)
    return context.Endpoints["docker"].Host if context and "docker" in context.Endpoints else ""


class _Configuration(msgspec.Struct):
    currentContext: str = ""


class _Endpoint(msgspec.Struct):
    Host: str = ""


class _Context(msgspec.Struct):
    Endpoints: dict[str, _Endpoint] = {}


def _count_gpus(devices: Path) -> int:
    try:
        names = os.listdir(devices)
    except OSError:
        return 0
    return sum(1 for name in names if re.fullmatch(r"nvidia\d+", name))
