"""The remote builder of a target, for machines without Docker.

The context goes to the job's own bucket, the service builds and pushes it, and its log is shown
while it grows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.images.events import BuildEvent
from rsctl.images.recipe import Recipe, repository_of
from rsctl.job.job import Job
from rsctl.target_info import import_object, target_info


class RemoteBuilder(Protocol):
    """A cloud service that builds images."""

    def build(self, recipe: Recipe, show: Callable[[BuildEvent], None]) -> str:
        """Build and push `recipe.reference`; the digest (`sha256:...`) of the pushed image.

        `show` gets the steps and the output as they come. Raises RsctlError if it fails or is
        refused. On KeyboardInterrupt the build that this call started is cancelled.
        """


def remote_builder(job: Job, target: str, endpoints: Endpoints) -> RemoteBuilder:
    """The service that belongs to a target. Raises RsctlError naming every field it lacks."""
    remote_build = target_info(target).remote_build
    if remote_build is None:
        message = f"target {target} has no cloud service that builds images"
        remedy = "build with Docker or Podman: omit --builder cloud"
        raise RsctlError(ExitCode.USAGE, error("builder", message, remedy, "target"))
    missing = _missing(job, target, remote_build.needs)
    platform = job.image.platform
    if platform and platform not in remote_build.platforms:
        message = f"the cloud of target {target} builds for {' and '.join(remote_build.platforms)}"
        remedy = f"build on a machine for {platform}: omit --builder cloud"
        missing.append(error("unsupported", message, remedy, "image.platform"))
    if job.image.secrets:
        message = f"the cloud of target {target} builds without secrets, because rsctl would have "
        message += "to store their values there"
        remedy = "build on a machine with Docker or Podman: omit --builder cloud"
        missing.append(error("unsupported", message, remedy, "image.secrets"))
    if missing:
        raise RsctlError(ExitCode.USAGE, *missing)
    make: Callable[[Any, Endpoints], RemoteBuilder] = import_object(remote_build.builder)
    return make(target_info(target).options_of(job), endpoints)


def _missing(job: Job, target: str, needs: Mapping[tuple[str, ...], str]) -> list[Finding]:
    options = target_info(target).options_of(job)
    found = [
        error(
            "cloud-build",
            f"building in the cloud needs targets.{target}.{name}",
            f"give {example}",
            f"targets.{target}.{name}",
        )
        for (name, *others), example in needs.items()
        if not any(getattr(options, either) for either in (name, *others))
    ]
    if not repository_of(job, target):
        message = (
            "building in the cloud needs image.repository, because the service pushes the image"
        )
        remedy = "set the registry's path, without a tag"
        found.append(error("cloud-build", message, remedy, "image.repository"))
    return found
