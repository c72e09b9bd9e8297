"""The image of a rehearsed job: built here, without parts that only the vendors have."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from rsctl.targets.base import Plan, Submission
from rsctl.targets.managed.emulator.nodes import Kind

NEEDS_VENDOR = ("reduction-server", "fast-socket", "efa")
"""Transports whose parts only the vendors' own package sources have."""


def replacement_transport(plan: Plan) -> Literal["rsctl", "none"]:
    """The transport in place of one that is not available."""
    return "rsctl" if any(pool.role == "reducer" for pool in plan.pools) else "none"


def rehearsed_submission(submission: Submission, runner: Kind) -> Submission:
    """A submission whose image this machine can build, and which is pushed nowhere.

    For processes nothing is built, and the plan's image stands for the source.
    """
    alternatives = tuple(rehearsed_submission(each, runner) for each in submission.alternatives)
    submission = replace(submission, alternatives=alternatives)
    if runner == "process" or submission.recipe is None:
        placeholders = tuple(each for each in submission.placeholders if each.secret)
        return replace(submission, recipe=None, placeholders=placeholders, is_pushed=False)
    recipe = submission.recipe
    if recipe.transport in NEEDS_VENDOR:
        recipe = recipe.with_transport(replacement_transport(submission.plan))
    return replace(submission, recipe=recipe, is_pushed=False)
