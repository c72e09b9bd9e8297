"""The image of a plan: the one that the job names, or the one that its recipe would make. Pure."""

from __future__ import annotations

from typing import NamedTuple, Optional

from rsctl.findings import Finding
from rsctl.images.findings import recipe_of
from rsctl.images.recipe import Recipe
from rsctl.job.job import Job
from rsctl.targets.base import ImagePlan


class PlannedImage(NamedTuple):
    """The plan's image, its builder (None: used without changes), and findings."""

    plan: ImagePlan
    recipe: Optional[Recipe] = None
    findings: list[Finding] = []


def plan_image(job: Job, target: str, transport: str = "none") -> PlannedImage:
    """The image of a job on a target; `transport` belongs to an image that is used without changes.

    Raises RsctlError if a file of the image cannot be read.
    """
    if job.image.uri:
        return PlannedImage(ImagePlan(tag=job.image.uri, transport=transport))
    recipe, findings = recipe_of(job, target)
    return PlannedImage(
        ImagePlan(tag=recipe.reference, transport=recipe.transport), recipe, findings
    )
