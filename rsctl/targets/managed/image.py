"""Provides a planned image in its registry, built on this machine or in the cloud."""

from __future__ import annotations

from rsctl.findings import RsctlError, note
from rsctl.images.events import Show
from rsctl.targets.base import Submission


def ensure_planned_image(submission: Submission, show: Show) -> str | None:
    """Provide the plan's image; the reference for the request, None if the plan has no image.

    Where this machine has no builder, the target's cloud builds. Raises RsctlError.
    """
    from rsctl.images.ensure import ensure_image, ensure_image_remotely

    recipe, job = submission.recipe, submission.job
    if recipe is None:
        return submission.plan.image.tag
    try:
        return ensure_image(recipe, job, show, push=submission.is_pushed).reference
    except RsctlError:
        if _has_builder() or not submission.is_pushed:
            raise
    show(note("cloud-build", "this machine has no builder, so the cloud builds the image"))
    return ensure_image_remotely(recipe, job, submission.plan.target, show).reference


def _has_builder() -> bool:
    from rsctl.images.builder_detection import detect_builder

    try:
        return bool(detect_builder("auto"))
    except RsctlError:
        return False
