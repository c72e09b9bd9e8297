"""Budgets, by the plans of jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.api import Budget, RsctlError, load
from rsctl.api.job_file import make_submission
from rsctl.targets.base import Submission

JOB = """
name: paid
target: vertex
run: {command: [echo, done], launcher: none}
image: {uri: us-docker.pkg.dev/p/r/i:1}
workers: {machine: n1-standard-4}
limits: {timeout: 1h}
targets: {vertex: {project: mine, region: us-central1}, slurm: {shared: /shared}}
"""


@pytest.fixture
def planned(tmp_path: Path) -> Any:
    """The submission of the job with settings, and optionally on another target."""

    def plan(target: str | None = None, **settings: Any) -> Submission:
        known = {name.replace("__", "."): value for name, value in settings.items()}
        return make_submission(load(tmp_path / "job.yaml", set=known, text=JOB), target)

    return plan


def test_the_dearest_placement_counts_and_a_release_makes_room(planned: Any) -> None:
    small = planned()
    both = planned(workers__machine=["n1-standard-4", "n1-standard-8"])
    large = planned(workers__machine="n1-standard-8")
    budget = Budget(limit=large.plan.cost.most)
    reserved = budget.reserve([both])
    assert reserved == large.plan.cost.most > small.plan.cost.most
    with pytest.raises(RsctlError, match=r"0\.00 USD of the budget of"):
        budget.reserve([small])
    budget.release(reserved)
    with pytest.raises(RsctlError, match="it can cost"):
        budget.reserve([large, small])  # all or none
    assert budget.reserved == 0
    budget.reserve([small])
    assert budget.reserved == small.plan.cost.most


def test_without_a_price_only_this_machine_is_free(planned: Any) -> None:
    budget = Budget(limit=0.01)
    assert budget.reserve([planned("compose")]) == 0
    with pytest.raises(RsctlError, match="target slurm has no prices") as refused:
        budget.reserve([planned("slurm")])
    assert refused.value.findings[0].remedy == "omit --max-cost"
    assert Budget().reserve([planned()]) == 0  # no limit
