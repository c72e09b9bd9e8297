"""What is known of a step of a job or of a run, and how much a job is to do."""

from __future__ import annotations

import msgspec
import pytest

from rsctl.api import step_profiles
from rsctl.api.work import work_of
from rsctl.estimate.advice.measured import StepRecord, profile_of_record
from rsctl.estimate.advice.profile import GradientBucket, Profile
from rsctl.findings import RsctlError
from rsctl.job.job import Job, Limits, Model, RunBlock
from rsctl.job.units import Count, Duration
from rsctl.runs.calibrations import save_profile
from rsctl.runs.step_times import StepPart, keep_steps
from rsctl.runs.store import Store

from .recorded import add


def test_what_is_known_of_a_job_s_step() -> None:
    job = Job(name="job", run=RunBlock(script="train.py"))
    assert step_profiles.profile_of_job(job) is None
    measured = Profile(
        gradient_bytes=1, step_seconds=1.0, buckets=(GradientBucket(1, 0.5),), source="m"
    )
    save_profile(job, measured)
    assert step_profiles.profile_of_job(job) == measured
    half = msgspec.structs.replace(job, model=Model(parameters=Count(1000)))
    assert step_profiles.profile_of_job(half) == measured
    model = Model(parameters=Count(1000), step_seconds=Duration(0.5))
    told = step_profiles.profile_of_job(msgspec.structs.replace(job, model=model))
    assert told is not None
    assert (told.source, told.step_seconds) == ("spec", 0.5)


def test_the_steps_of_a_run() -> None:
    add()
    with pytest.raises(RsctlError, match="job-1 has recorded no steps"):
        step_profiles.profile_of_run("job-1")
    part = StepPart(
        **{"steps": 20, "seconds": 0.5, "low": 0.49, "high": 0.52, "compute": 0.4, "data": 0.1},
        **{"world": 2, "prefetches": True, "communicates": True, "part": 0, "parts": 1},
        buckets=(),
    )
    keep_steps(Store(), "job-1", part)
    with pytest.raises(RsctlError, match="job-1 has recorded no steps"):
        step_profiles.profile_of_run("job-1")
    keep_steps(Store(), "job-1", msgspec.structs.replace(part, buckets=((100, 0.2, 0.4),)))
    assert step_profiles.profile_of_run("@last").source == "run job-1"


@pytest.mark.parametrize(
    "run",
    [
        RunBlock(script="t.py", args={"epochs": 3}),
        RunBlock(script="t.py", args=["--epochs=3"]),
        RunBlock(command=["python", "t.py", "--epochs=3"]),
    ],
)
def test_how_much_a_job_is_to_do(run: RunBlock) -> None:
    found = work_of(Job(name="job", run=run, limits=Limits(timeout=Duration(60))))
    assert (found.goal.epochs, found.timeout) == (3, 60.0)
    assert work_of(Job(name="job", run=RunBlock(command=["a"]))).timeout is None


def test_a_rank_that_has_waited_for_a_core() -> None:
    busy = {"steps": 20, "seconds": 0.5, "low": 0.5, "high": 0.5, "compute": 0.5, "data": 0.0}
    facts = {"world": 2, "prefetches": False, "communicates": False, "buckets": ((4, 0.1, 0.1),)}
    alone = StepRecord(**busy, **facts, cores=0.98, queued=0.049)  # type: ignore[arg-type]
    assert profile_of_record(alone, "x").assumed == ()
    assert profile_of_record(alone, "x").cores == 0.98
    shared = StepRecord(**busy, **facts, cores=0.5, queued=0.48)  # type: ignore[arg-type]
    assert profile_of_record(shared, "x").assumed == (
        "the measured rank waited for a core in 48% of the time, because ranks or other programs "
        "share the cores: without them, a step is shorter",
    )
