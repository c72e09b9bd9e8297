"""Checks the registry that a job's image is pushed to: login and lookup."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.images.recipe import repository_of
from rsctl.job.job import Job
from rsctl.targets.base import Plan
from rsctl.targets.doctor import Check, run_check, skipped

_NO_IMAGE = "doctor"  # a tag that does not exist


def registry_checks(job: Job, plan: Plan) -> Iterator[Check]:
    """Whether images of the repository may be looked up; pushing is not tried."""
    yield _registry_check(job, plan.target)


def _registry_check(job: Job, target: str) -> Check:
    if job.image.uri:
        return skipped("registry", f"{job.image.uri} is used without changes")
    repository = repository_of(job, target)
    if repository is None:
        return skipped("registry", "the image is not pushed")
    return run_check("registry", lambda: _reach(repository))


def _reach(repository: str) -> str:
    from rsctl.images.registry.operations import find_pushed, login_for

    login = login_for(repository)
    find_pushed(f"{repository}:{_NO_IMAGE}", login)
    return f"{repository} answers"
