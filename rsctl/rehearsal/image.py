"""The image of a rehearsed job: built here, without what only the vendors have."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from rsctl.emulators.nodes import Kind
from rsctl.image.events import Show
from rsctl.image.findings import recipe_of
from rsctl.image.recipe import Recipe
from rsctl.rehearsal.settings import rehearsal_of
from rsctl.spec.job import Job
from rsctl.targets.base import Plan

NEEDS_VENDOR = ("reduction-server", "fast-socket", "efa")
"""Transports whose parts only the vendors' own package sources have."""


def replacement_transport(plan: Plan) -> Literal["rsctl", "none"]:
    """The transport in place of one that only the vendors have."""
    return "rsctl" if any(pool.role == "reducer" for pool in plan.pools) else "none"


def nodes_image(job: Job, plan: Plan, runner: Kind) -> str:
    """What the nodes run: the image that is built here, or what the plan names. Raises RsctlError.

    For processes nothing is built, and the plan's image stands for the source.
    """
    if runner == "process" or job.image.uri or plan.image.tag is None:
        return plan.image.tag or job.image.uri or ""
    return _recipe(job, plan).reference


def provide_rehearsal_image(plan: Plan, job: Job, show: Show) -> str | None:
    """The image for a rehearsed request, built here and not pushed.

    Raises RsctlError.
    """
    from rsctl.image.ensure import ensure_image

    rehearsal = rehearsal_of(plan.run)
    if rehearsal is None or rehearsal.runner == "process" or job.image.uri or not plan.image.tag:
        return plan.image.tag
    return ensure_image(_recipe(job, plan), job, show).reference


def _recipe(job: Job, plan: Plan) -> Recipe:
    if plan.image.transport in NEEDS_VENDOR:
        job = replace(job, image=replace(job.image, transport=replacement_transport(plan)))
    return recipe_of(job, plan.target)[0]
