"""What a user should know of an image before it is built."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.findings import ExitCode, Finding, RsctlError, error, note
from rsctl.image.context import LeftOut
from rsctl.image.recipe import Recipe, make_recipe
from rsctl.image.transport import choose_transport
from rsctl.spec.job import Job

_SHOWN = 5
_RETURN = "to have it there after all, write !PATH into .dockerignore"


def image_findings(job: Job, target: str) -> list[Finding]:
    """Whether there is an image to build or to use, and how its transport is chosen."""
    if job.image.uri:
        return []
    if not job.image.base:
        remedy = "give image.base to build on, or image.uri to use as it is"
        return [error("image", f"target {target} needs an image", remedy, "image")]
    return choose_transport(job, target).findings


def recipe_of(job: Job, target: str) -> tuple[Recipe, list[Finding]]:
    """The recipe, and what was left out of the source. Raises RsctlError."""
    try:
        recipe = make_recipe(job, target)
    except OSError as problem:
        message = f"cannot read {problem.filename}: {problem.strerror}"
        raise RsctlError(ExitCode.USAGE, error("file", message, None, "image.source")) from None
    return recipe, list(left_out_notes(recipe.context.left_out, "the image"))


def left_out_notes(left_out: list[LeftOut], place: str, remedy: str = _RETURN) -> Iterator[Finding]:
    """What of the source is not in a place, one note a reason."""
    by_reason: dict[str, list[str]] = {}
    for path, reason in left_out:
        by_reason.setdefault(reason, []).append(path)
    for reason, paths in by_reason.items():
        more = f" and {len(paths) - _SHOWN} more" if paths[_SHOWN:] else ""
        yield note(
            "left-out",
            f"not in {place}: {', '.join(paths[:_SHOWN])}{more} ({reason})",
            remedy,
            "image.source",
        )
