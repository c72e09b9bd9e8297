"""What a job in a cloud starts from: its image, by digest, and source beside an `image.uri`."""

from __future__ import annotations

from typing import Any

from rsctl.findings import RsctlError, note
from rsctl.image.events import Show
from rsctl.image.findings import recipe_of
from rsctl.image.package import digest_in, is_packaged
from rsctl.runs.home import is_rehearsed
from rsctl.spec.job import Job
from rsctl.targets.base import Plan
from rsctl.targets.managed.overlay import names


def provide_image(plan: Plan, job: Job, show: Show) -> str | None:
    """What the request has in place of the plan's tag; None if there is nothing to build.

    Where this machine has no builder, the target's cloud builds. Raises RsctlError.
    """
    if plan.image.tag is not None and names(_overlay(plan, job), plan.image.tag):
        return plan.image.tag  # the patch's own image, in place of what would have been built
    if is_rehearsed(plan.run):
        from rsctl.rehearsal.image import provide_rehearsal_image

        return provide_rehearsal_image(plan, job, show)
    from rsctl.image.ensure import ensure_image, ensure_image_remotely

    if job.image.uri or plan.image.tag is None:
        return plan.image.tag
    recipe, _ = recipe_of(job, plan.target)
    try:
        return ensure_image(recipe, job, show, push=True).reference
    except RsctlError:
        if _has_builder():
            raise
    show(note("cloud-build", "no builder on this machine: the image is built in the cloud"))
    return ensure_image_remotely(recipe, job, plan.target, show).reference


def provide_package(plan: Plan, job: Job, show: Show) -> None:
    """Have the package that the plan's request names in the staging bucket; most jobs have none.

    Raises RsctlError.
    """
    digest = digest_in(plan.request) if is_packaged(job) else None
    if digest is not None:
        from rsctl.targets.managed.package_upload import upload_package

        upload_package(digest, job, plan.target, show)


def _overlay(plan: Plan, job: Job) -> Any:
    return getattr(job.targets, plan.target).overlay


def _has_builder() -> bool:
    from rsctl.image.builder_detection import detect_builder

    try:
        return bool(detect_builder("auto"))
    except RsctlError:
        return False
