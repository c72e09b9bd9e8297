"""Checks of `chief` against `run` and `workers`."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.findings import Finding, error
from rsctl.spec.env_checks import check_env, is_secret_name
from rsctl.spec.job import Job


def check_chief(job: Job) -> Iterator[Finding]:
    """Findings on what the chief has of its own."""
    chief, run = job.chief, job.run
    if isinstance(chief.args, dict) and isinstance(run.args, list) and run.args:
        message = "run.args is a list, which has no names that a mapping could be laid over"
        yield error("args", message, "write both as mappings, or both as lists", "chief.args")
    yield from check_env(chief.env, "chief.env")
    for name, value in chief.env.items():
        common = run.env.get(name)
        is_secret = value.secret or is_secret_name(name)
        if common is not None and common != value and is_secret and common.secret:
            message = f"{name} is a secret of all workers and another of the chief"
            remedy = "give the chief's another name: a run has one secret of each name"
            yield error("secret", message, remedy, f"chief.env.{name}")
