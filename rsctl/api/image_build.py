"""The image of a job: its Dockerfile, and its build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from rsctl.api.job_file import AnyJob, source_of
from rsctl.findings import Finding, error
from rsctl.images.ensure import ImageResult, ensure_image, ensure_image_remotely
from rsctl.images.events import BuildEvent
from rsctl.images.findings import image_findings, recipe_of
from rsctl.images.recipe import Recipe
from rsctl.job.document import Document
from rsctl.job.job import Job
from rsctl.job.placements import placements_of
from rsctl.target_info import target_info

BuilderName = Literal["auto", "buildx", "buildkit", "classic", "podman", "cloud"]


@dataclass(frozen=True)
class PreparedImage:
    """An image that can be built; nothing is built yet."""

    recipe: Recipe = field(repr=False)
    job: Job = field(repr=False)
    target: str
    findings: tuple[Finding, ...]
    builder: BuilderName = "auto"
    push: bool = False

    @property
    def tag(self) -> str:
        """Its name, with a hash of all its inputs."""
        return self.recipe.reference

    @property
    def dockerfile(self) -> str:
        """The Dockerfile, for BuildKit."""
        return self.recipe.dockerfile(cache_mounts=True)

    def build(self, on_progress: Callable[[BuildEvent], None] | None = None) -> ImageResult:
        """Find or build the image, and push it if requested. Raises RsctlError."""
        show = on_progress or (lambda _event: None)
        if self.builder == "cloud":
            return ensure_image_remotely(self.recipe, self.job, self.target, show)
        return ensure_image(self.recipe, self.job, show, self.builder, self.push)


def prepare_image(
    job: AnyJob,
    target: str | None = None,
    *,
    push: bool = False,
    builder: BuilderName = "auto",
) -> PreparedImage:
    """The image that a job needs on a target, to be built and, with `push`, pushed.

    `builder` cloud is Cloud Build on vertex and CodeBuild on sagemaker, and always pushes. Raises
    RsctlError with all errors of the image.
    """
    source, _ = source_of(job)
    document = Document("", job=source) if isinstance(source, Job) else source
    chosen = target or (document.job.target if document.job else "process")
    is_pushed = push or builder == "cloud"
    if document.job is not None:
        document.job = placements_of(document.job, target_info(chosen))[0].job
        document.add(image_findings(document.job, chosen))
        if document.job.image.uri:
            message = "image.uri is used without changes, so there is nothing to build"
            document.add(
                [
                    error(
                        "image",
                        message,
                        "set image.base or image.dockerfile to build an image on",
                        "image.uri",
                    )
                ]
            )
    recipe, findings = recipe_of(document.require_job(), chosen)
    document.add(findings)
    if is_pushed and not recipe.repository:
        message = f"there is no repository to push the image of target {chosen} to"
        remedy = f"set image.repository, or image.repository.{chosen}: HOST/PATH"
        document.add([error("repository", message, remedy, "image.repository")])
    found = document.require_job()
    return PreparedImage(recipe, found, chosen, tuple(document.findings), builder, is_pushed)
