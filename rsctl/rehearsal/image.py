"""The image of a rehearsed job: built here, without what only the vendors have."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from msgspec.structs import replace as with_fields

from rsctl.emulators.nodes import Kind
from rsctl.image.findings import recipe_of
from rsctl.image.recipe import Recipe
from rsctl.targets.base import Plan, Submission

NEEDS_VENDOR = ("reduction-server", "fast-socket", "efa")
"""Transports whose parts only the vendors' own package sources have."""


def replacement_transport(plan: Plan) -> Literal["rsctl", "none"]:
    """The transport in place of one that cannot be had."""
    return "rsctl" if any(pool.role == "reducer" for pool in plan.pools) else "none"


def rehearsed_submission(submission: Submission, runner: Kind) -> Submission:
    """A submission whose image this machine can build, and which is pushed nowhere.

    For processes nothing is built, and the plan's image stands for the source. Raises RsctlError.
    """
    if runner == "process" or submission.recipe is None:
        placeholders = tuple(each for each in submission.placeholders if each.secret)
        return replace(submission, recipe=None, placeholders=placeholders, is_pushed=False)
    return replace(submission, recipe=_recipe(submission, submission.recipe), is_pushed=False)


def _recipe(submission: Submission, recipe: Recipe) -> Recipe:
    job, plan = submission.job, submission.plan
    if recipe.transport not in NEEDS_VENDOR:
        return recipe
    image = with_fields(job.image, transport=replacement_transport(plan))
    return recipe_of(with_fields(job, image=image), plan.target)[0]
