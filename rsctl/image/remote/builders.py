"""The remote builder of a target: Cloud Build or CodeBuild, for machines without Docker.

Target vertex builds with Cloud Build, target sagemaker with CodeBuild: the context goes to the
job's own bucket, the service builds and pushes it, and its log comes back as it grows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.image.events import BuildEvent
from rsctl.image.recipe import Recipe, repository_of
from rsctl.spec.job import Job


class RemoteBuilder(Protocol):
    """A cloud service that builds images."""

    def build(self, recipe: Recipe, show: Callable[[BuildEvent], None]) -> str:
        """Build and push `recipe.reference`; the digest (`sha256:...`) of what was pushed.

        `show` gets the steps and the output as they come. Raises RsctlError if it fails or is
        refused. On KeyboardInterrupt the build that this call started is cancelled.
        """


def remote_builder(job: Job, target: str, endpoints: Endpoints) -> RemoteBuilder:
    """The service that belongs to a target. Raises RsctlError naming every field it lacks."""
    needed = {
        "vertex": ("project", "region", "staging"),
        "sagemaker": ("region", "staging"),
    }.get(target)
    if needed is None:
        message = f"target {target} has no cloud that could build its image"
        remedy = "build with Docker or Podman: leave out --builder cloud"
        raise RsctlError(ExitCode.USAGE, error("builder", message, remedy, "target"))
    missing = _missing(job, target, needed)
    if missing:
        raise RsctlError(ExitCode.USAGE, *missing)
    if target == "vertex":
        from rsctl.image.remote.cloudbuild import CloudBuild

        return CloudBuild(job.targets.vertex, endpoints)
    from rsctl.image.remote.codebuild import CodeBuild

    return CodeBuild(job.targets.sagemaker, endpoints)


_EXAMPLES = {
    "project": "your Google Cloud project's id",
    "region": "where it is built, such as us-central1 or us-east-1",
    "staging": "a folder in a bucket of yours, such as gs://bucket/staging or s3://bucket/staging",
    "build_role": "the ARN of an IAM role that CodeBuild may take",
}


def _missing(job: Job, target: str, needed: tuple[str, ...]) -> list[Finding]:
    options = getattr(job.targets, target)
    names = [name for name in needed if not getattr(options, name)]
    if target == "sagemaker" and not (options.build_role or options.role):
        names.append("build_role")
    found = [
        error(
            "cloud-build",
            f"building in the cloud needs targets.{target}.{name}",
            f"give {_EXAMPLES[name]}",
            f"targets.{target}.{name}",
        )
        for name in names
    ]
    if not repository_of(job, target):
        message = "building in the cloud needs image.repository, since it pushes what it builds"
        remedy = "give the registry's path, without a tag"
        found.append(error("cloud-build", message, remedy, "image.repository"))
    return found
