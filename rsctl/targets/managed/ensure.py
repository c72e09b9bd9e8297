"""Has what a job in a cloud starts from: its image in a registry, its source in a bucket."""

from __future__ import annotations

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import RsctlError, note
from rsctl.image.events import Show
from rsctl.targets.base import Submission


def ensure_planned_image(submission: Submission, show: Show) -> str | None:
    """Have the plan's image; what the request has in place of its tag, None if it has no image.

    Where this machine has no builder, the target's cloud builds. Raises RsctlError.
    """
    from rsctl.image.ensure import ensure_image, ensure_image_remotely

    recipe, job = submission.recipe, submission.job
    if recipe is None:
        return submission.plan.image.tag
    try:
        return ensure_image(recipe, job, show, push=submission.is_pushed).reference
    except RsctlError:
        if _has_builder() or not submission.is_pushed:
            raise
    show(note("cloud-build", "no builder on this machine: the image is built in the cloud"))
    return ensure_image_remotely(recipe, job, submission.plan.target, show).reference


def ensure_package(submission: Submission, endpoints: Endpoints, show: Show) -> None:
    """Have the package that the request names in the staging bucket; most jobs have none.

    Raises RsctlError.
    """
    if submission.package is not None:
        from rsctl.targets.managed.package_upload import upload_package

        upload_package(
            *(submission.package, submission.job, submission.plan.target, endpoints, show)
        )


def _has_builder() -> bool:
    from rsctl.image.builder_detection import detect_builder

    try:
        return bool(detect_builder("auto"))
    except RsctlError:
        return False
