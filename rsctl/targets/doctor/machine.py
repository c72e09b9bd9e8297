"""This machine: Python, the installed packages beside rsctl, Docker, the store."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from rsctl import __version__
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.builder_detection import detect_builder
from rsctl.installation import install_command
from rsctl.runs.store import Store
from rsctl.target_info import all_targets, target_info
from rsctl.targets.doctor import Check, Verdict, ok, run_check, skipped
from rsctl.targets.local import docker


def machine_checks(target: str | None) -> Iterator[Check]:
    """The requirements of all targets, and of one; without a target, Docker is optional."""
    yield ok("rsctl", f"{__version__} on Python {platform.python_version()}")
    yield run_check("store", _store)
    needs = target_info(target).needs if target else frozenset()
    use = "launcher torchrun on target process"
    yield _installed("torch", "local", use, needed="torch" in needs)
    yield _installed("matplotlib", "report", "charts as PNG files")
    for info in all_targets():
        if info.sdk_package is not None and info.sdk_code is not None:
            use = info.sdk_code.partition(":")[0]
            yield _installed(info.sdk_package, "sdk", use)
    required: Verdict = "error" if "docker" in needs else "warning"
    yield run_check("docker", _engine, required)
    yield run_check("compose", _compose, required)
    yield run_check("builder", lambda: f"{detect_builder('auto')} builds images", required)


def _store() -> str:
    store = Store()
    count = len(store.runs())
    store.close()
    return f"{count} run{'s'[: count != 1]} in {store.path}"


def _installed(package: str, extra: str, use: str, needed: bool = False) -> Check:
    try:
        return ok(package, version(package))
    except PackageNotFoundError:
        message = f"not installed; only for {use}"
        remedy = install_command(extra)
    if needed:
        return Check(name=package, verdict="error", message=message, remedy=remedy)
    return skipped(package, message, remedy)


def _engine() -> str:
    for finding in docker.missing():
        if finding.code == "docker":
            raise RsctlError(ExitCode.ENVIRONMENT, finding)
    done = docker.run(["docker", "version", "--format", "{{.Client.Version}} {{.Server.Version}}"])
    client, _, server = done.stdout.strip().partition(" ")
    return f"client {client}, engine {server}"


def _compose() -> str:
    command = docker.compose_command()
    if command is None:
        remedy = "install the Docker compose plugin"
        raise RsctlError(
            ExitCode.ENVIRONMENT, error("compose", "docker compose is not installed", remedy)
        )
    return docker.run([*command, "version", "--short"]).stdout.strip()
