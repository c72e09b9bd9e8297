"""A rehearsed cloud from Python: two runs at once, each with an emulator of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import rsctl.api
from rsctl.api import JobState, MetricEvent, Rehearsal, RsctlError

from .conftest import Write

QUICK = {"pace": 0.01}


def cloud_job(write_job: Write) -> str:
    run = {"script": "train.py", "launcher": "once"}
    return write_job(target="vertex", image={"base": "base:1", "source": "src"}, run=run)


def test_rehearsals_in_threads_reach_each_its_own_cloud(write_job: Write) -> None:
    path = cloud_job(write_job)

    def rehearse(target: str) -> tuple[rsctl.api.Run, list[float]]:
        run = rsctl.api.submit(path, target, rehearse=Rehearsal("process", QUICK))
        assert run.status().url
        events = run.follow()
        return run, [event.value for event in events if isinstance(event, MetricEvent)]

    with ThreadPoolExecutor(2) as threads:
        done = list(threads.map(rehearse, ("vertex", "sagemaker")))
    for run, values in done:
        assert [value for value in values if value in (0.5, 0.25)] == [0.5, 0.25]
        assert run.state is JobState.SUCCEEDED
        assert run.is_rehearsed
        assert run.status().state is JobState.SUCCEEDED
    assert {run.record.target for run, _ in done} == {"vertex", "sagemaker"}


def test_a_rehearsal_is_asked_about_and_cancelled_from_elsewhere(write_job: Write) -> None:
    run = {"command": ["bash", "-c", "echo up; sleep 300"], "launcher": "once"}
    path = write_job(target="sagemaker", image={"base": "base:1", "source": "src"}, run=run)
    submitted = rsctl.api.submit(path, rehearse=Rehearsal("process", QUICK))
    with ThreadPoolExecutor(1) as threads:
        result = threads.submit(submitted.wait)
        assert rsctl.api.run(submitted.id).status().run == submitted.id
        submitted.cancel()
        assert result.result(90).state is JobState.CANCELLED


def test_what_cannot_be_rehearsed_is_an_error(write_job: Write) -> None:
    path = cloud_job(write_job)
    with pytest.raises(RsctlError, match="already runs on this machine"):
        rsctl.api.submit(path, "process", rehearse=Rehearsal())
    with pytest.raises(RsctlError, match="there is no field 'mood'"):
        rsctl.api.submit(path, rehearse=Rehearsal("process", {"mood": "bad"}))
    assert rsctl.api.runs() == []
