"""A run in a cloud is submitted, found again after a lost answer, adopted and cancelled."""

from __future__ import annotations

import json
import os
from time import time
from typing import Any

import msgspec
import pytest

from rsctl.estimate.costs.billing import PlanCost
from rsctl.findings import ExitCode, JobState, RsctlError
from rsctl.images.events import BuildOutput, Show
from rsctl.job.job import Image, Job, RunBlock
from rsctl.runs.folder import CostLimit, RunDescription, RunFolder
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import now
from rsctl.targets.base import ImagePlan, Placeholder, Plan, Submission, replica_names
from rsctl.targets.managed.placeholders import resolve_placeholders

from .conftest import POOLS, URL, FakeCloud, FakeTarget, Killed, followed, line, reported, stored


def submit(target: FakeTarget, **fields: Any) -> None:
    """Submit the job of a plan with these fields."""
    image = ImagePlan(tag=None, transport="none")
    fields = {"pools": POOLS, "world_size": 2, **fields}
    plan = Plan(run="t-bbbbbb", target="vertex", image=image, env={}, request={}, **fields)
    known = RunRecord(
        run=plan.run,
        name="t",
        target="vertex",
        url="vertex://t-bbbbbb",
        state=JobState.QUEUED,
        created=now(),
        plan=msgspec.to_builtins(plan),
    )
    job = Job(name="t", run=RunBlock(command=["true"]), image=Image(uri="i"))
    target.submit(Submission(plan, job), lambda: Store().add(known), lambda _event: None)


def submitted(cloud: FakeCloud, target: FakeTarget, lost_by: type[BaseException]) -> RunRecord:
    """What is known of a run whose submission has ended like this, after the job was made."""
    cloud.lost_by = lost_by
    with pytest.raises(lost_by):
        submit(target)
    return stored("t-bbbbbb")


@pytest.mark.parametrize(
    ("cost", "kept"),
    [
        ({"per_hour": 2.0, "most": 2.0, "limit": 2.0}, CostLimit(2.0, 2.0, True)),
        ({"per_hour": 2.0, "most": 1.0, "limit": 2.0}, CostLimit(2.0, 2.0, False)),
        ({"per_hour": 2.0, "most": 2.0}, None),
    ],
)
def test_the_limit_of_the_cost_is_kept_with_the_run(
    target: FakeTarget, cost: dict[str, float], kept: CostLimit | None
) -> None:
    """The process that follows the run may not be the one that has submitted it."""
    submit(target, cost=PlanCost(seconds=3600.0, spot=False, **cost))
    assert RunFolder("t-bbbbbb").description().cost == kept


def test_a_submission_that_was_killed_before_the_answer_is_found_again(
    cloud: FakeCloud, target: FakeTarget
) -> None:
    run = submitted(cloud, target, Killed)
    assert run.url == "vertex://t-bbbbbb"
    cloud.end(JobState.SUCCEEDED)
    assert reported(followed(target, run.run))[-1] == "job succeeded"
    assert (stored(run.run).url, cloud.calls.count("create")) == (URL, 1)


def test_a_submission_that_was_interrupted_leaves_no_job(
    cloud: FakeCloud, target: FakeTarget
) -> None:
    assert submitted(cloud, target, KeyboardInterrupt).url == URL
    assert cloud.cancelled


class Building(FakeTarget):
    """A target whose image is being built as another process cancels the run."""

    def have_image(self, submission: Submission, show: Show) -> str:
        show(BuildOutput("before"))
        self.cancel(submission.plan.run)
        show(BuildOutput("after"))
        return "image"


def test_a_cancellation_ends_the_build_and_no_job_is_made(cloud: FakeCloud) -> None:
    with pytest.raises(RsctlError, match="another process has cancelled t-bbbbbb") as caught:
        submitted(cloud, Building(cloud), Killed)
    assert caught.value.exit_code is ExitCode.CANCELLED
    assert "create" not in cloud.calls


def test_a_cancellation_of_a_run_that_may_have_a_job_does_not_end_the_build(
    cloud: FakeCloud,
) -> None:
    """An earlier request has had no answer: the same one finds its job, which is then cancelled."""
    description = RunDescription(run="t-bbbbbb", target="vertex", request={}, replicas=[])
    RunFolder("t-bbbbbb").create(description)
    requested_before("t-bbbbbb", 1)
    submitted(cloud, Building(cloud), KeyboardInterrupt)
    assert "create" in cloud.calls
    assert cloud.cancelled


@pytest.mark.parametrize("settled_after", [0.0, 300.0])
def test_a_submission_that_never_reached_the_cloud_is_given_up(
    cloud: FakeCloud, target: FakeTarget, run: str, settled_after: float
) -> None:
    """Its request may take 30 seconds to arrive, and the service's own time to be listed."""
    cloud.settled_after = settled_after
    Store().locate(run, f"vertex://{run}")
    requested_before(run, settled_after + 31)
    target.reconcile(run)
    known = stored(run)
    assert (known.state, known.reason) == (JobState.FAILED, "it was killed before the job was sent")
    assert followed(target, run) == []


@pytest.mark.parametrize(("settled_after", "within"), [(0.0, "30s"), (300.0, "5m30s")])
def test_a_submission_may_yet_reach_the_cloud(
    cloud: FakeCloud, target: FakeTarget, run: str, settled_after: float, within: str
) -> None:
    cloud.settled_after = settled_after
    Store().locate(run, f"vertex://{run}")
    requested_before(run, settled_after + 20)
    target.reconcile(run)
    known = stored(run)
    assert (known.state, known.reason) == (
        JobState.QUEUED,
        "its submission was killed before the cloud had answered: the run fails if no job appears "
        f"within {within} of the request",
    )


def requested_before(run: str, age: float) -> None:
    """The run's submission has sent its request so many seconds ago."""
    then = time() - age
    RunFolder(run).note_request()
    os.utime(RunFolder(run).path / "requested", (then, then))


def test_a_submission_that_has_sent_nothing_is_given_up_at_once(
    target: FakeTarget, run: str
) -> None:
    Store().locate(run, f"vertex://{run}")
    target.reconcile(run)
    assert stored(run).state is JobState.FAILED


def test_a_submission_has_just_sent_its_request(cloud: FakeCloud, target: FakeTarget) -> None:
    run = submitted(cloud, target, Killed).run
    cloud.created.clear()
    target.reconcile(run)
    assert stored(run).state is JobState.QUEUED


def test_a_submission_that_is_cancelled_is_not_given_up(target: FakeTarget, run: str) -> None:
    """It may be about to send its request: whoever cancels does not hold the run's lock."""
    Store().locate(run, f"vertex://{run}")
    target.cancel(run)
    assert stored(run).state is JobState.QUEUED


@pytest.mark.parametrize(("age", "state"), [(5, "queued"), (11, "cancelled")])
def test_a_cancelled_run_whose_submission_was_killed_ends_within_seconds(
    cloud: FakeCloud, target: FakeTarget, run: str, age: float, state: str
) -> None:
    """Its request has had time to arrive; a list of all jobs may be minutes late."""
    cloud.settled_after = 300.0
    Store().locate(run, f"vertex://{run}")
    requested_before(run, age)
    target.cancel(run)
    target.reconcile(run)
    known = stored(run)
    why = (
        "its submission was killed, and the cloud shows no job of it: should one appear after all, "
        "cancel it there"
    )
    shown = (5, why) if known.state.is_final else (None, None)
    assert (known.state.value, known.exit_code, known.reason) == (state, *shown)


def test_the_job_of_a_killed_submission_is_found_and_cancelled(
    cloud: FakeCloud, target: FakeTarget
) -> None:
    run = submitted(cloud, target, Killed)
    target.cancel(run.run)
    assert cloud.cancelled
    assert stored(run.run).url == URL


def test_a_job_that_was_submitted_elsewhere(cloud: FakeCloud, target: FakeTarget) -> None:
    cloud.lines = [line(10, "worker-0", "a")]
    cloud.end(JobState.SUCCEEDED)
    run = target.adopt(URL).run
    assert (run, target.adopt(URL).run) == ("their-job-9bvf9a", run)
    assert "10 worker-0: a" in reported(followed(target, run))
    assert [r.replica for r in stored(run).replicas] == replica_names(POOLS)


def test_cancel_asks_the_cloud(cloud: FakeCloud, target: FakeTarget, run: str) -> None:
    target.cancel(run)
    assert cloud.cancelled


def test_placeholders_of_a_request_are_resolved() -> None:
    """What merely looks like the image or a secret stays as it is."""
    request = {
        "body": {
            "pools": [{"imageUri": "r/i:tag", "env": [{"name": "TOKEN", "value": None}]}, {}],
            "Environment": {"TOKEN": None, "A": "r/i:tag"},
            "other": None,
        }
    }
    before = json.dumps(request)
    placeholders = [
        Placeholder(("body", "pools", 0, "imageUri")),
        Placeholder(("body", "pools", 0, "env", 0, "value"), "TOKEN"),
        Placeholder(("body", "Environment", "TOKEN"), "TOKEN"),
    ]
    assert resolve_placeholders(request, placeholders, "r/i@sha256:1", {"TOKEN": "secret"}) == {
        "body": {
            "pools": [
                {"imageUri": "r/i@sha256:1", "env": [{"name": "TOKEN", "value": "secret"}]},
                {},
            ],
            "Environment": {"TOKEN": "secret", "A": "r/i:tag"},
            "other": None,
        }
    }
    assert json.dumps(request) == before
