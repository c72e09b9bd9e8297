"""Ensures that a job's image exists: finds it, or builds and pushes it."""

from __future__ import annotations

from time import monotonic
from typing import Optional

import msgspec
from msgspec.structs import replace

from rsctl.clients.endpoints import Endpoints
from rsctl.images.builder import Builder, select_builder
from rsctl.images.engine import Layer
from rsctl.images.events import BuildOutput, BuildStep, Show
from rsctl.images.labels import make_labels
from rsctl.images.last_build import ImageChange, changes_since_last_build, save_build
from rsctl.images.recipe import Recipe
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import at_digest
from rsctl.job.job import Job


class ImageResult(msgspec.Struct, kw_only=True):
    """An image that can be used; `rsctl build-image -o json` prints it.

    `digest` is the registry's, None for an image that was not pushed; `size` is in bytes. Id, size
    and layers are unknown for an image that this machine does not have. `changes` are the changes
    since the last build under this name here, None if there was none.
    """

    tag: str
    digest: Optional[str] = None
    id: Optional[str] = None
    size: Optional[int] = None
    layers: list[Layer] = []
    transport: str
    platform: Optional[str]
    built: bool = False
    pushed: bool = False
    seconds: float
    changes: Optional[list[ImageChange]]

    @property
    def reference(self) -> str:
        """The image to submit: by digest if it was pushed, so that it cannot be replaced."""
        return at_digest(self.tag, self.digest) if self.digest else self.tag


def ensure_image(
    recipe: Recipe, job: Job, show: Show, wanted: str = "auto", push: bool = False
) -> ImageResult:
    """Build the image on this machine, and push it if requested; keeps an existing image.

    `wanted` names a builder or is `auto`. Raises RsctlError.
    """
    started, changes = monotonic(), changes_since_last_build(recipe)
    digest = _find_pushed(recipe) if push else None
    if digest:
        return _result(recipe, started, changes, digest=digest)
    builder = select_builder(wanted)
    built = builder.image(recipe.reference)
    is_new = built is None
    if built is None:
        builder.build(replace(recipe, labels=make_labels(job)), show)
        built = builder.image(recipe.reference)
    digest = _push(recipe, builder, show) if push else None
    save_build(recipe)
    facts = {"id": built.id, "size": built.size, "layers": built.layers} if built else {}
    return _result(recipe, started, changes, digest=digest, built=is_new, pushed=push, **facts)


def ensure_image_remotely(recipe: Recipe, job: Job, target: str, show: Show) -> ImageResult:
    """Let the target's cloud build and push the image. Raises RsctlError."""
    from rsctl.images.remote.builders import remote_builder

    started, changes = monotonic(), changes_since_last_build(recipe)
    builder = remote_builder(job, target, Endpoints.of_environment())
    digest = _find_pushed(recipe)
    if digest:
        return _result(recipe, started, changes, digest=digest)
    _prepare_repository(recipe)
    digest = builder.build(replace(recipe, labels=make_labels(job)), show)
    save_build(recipe)
    return _result(recipe, started, changes, digest=digest, built=True, pushed=True)


def _result(
    recipe: Recipe, started: float, changes: list[ImageChange] | None, **facts: object
) -> ImageResult:
    return ImageResult(
        tag=recipe.reference,
        transport=recipe.transport,
        platform=recipe.platform,
        seconds=round(monotonic() - started, 3),
        changes=changes,
        **facts,  # type: ignore[arg-type]
    )


def _find_pushed(recipe: Recipe) -> str | None:
    from rsctl.images.registry.operations import find_pushed, login_for

    return find_pushed(recipe.reference, login_for(str(recipe.repository)))


def _prepare_repository(recipe: Recipe) -> Login | None:
    """Make sure that the repository exists; returns the credentials to push with."""
    from rsctl.images.registry.operations import ensure_repository, login_for

    repository = str(recipe.repository)
    login = login_for(repository)
    ensure_repository(repository, login)
    return login


def _push(recipe: Recipe, builder: Builder, show: Show) -> str:
    """Push, and return the digest. Fetches credentials only now, because a build may outlive
    them.
    """
    from rsctl.images.registry.push import push

    step, started, failed = BuildStep(0, 0, f"push {recipe.reference}"), monotonic(), True
    login = _prepare_repository(recipe)
    show(step)
    try:
        found = push(builder.program, recipe.reference, login, lambda line: show(BuildOutput(line)))
        failed = False
    finally:
        show(BuildStep(0, 0, step.instruction, seconds=monotonic() - started, failed=failed))
    return found
