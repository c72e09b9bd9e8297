"""A rehearsed cloud from Python: two runs at once, each with an emulator of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

import rsctl.api
from rsctl.api import JobState, MetricEvent, Rehearsal, RsctlError
from rsctl.runs.folder import RunFolder

from .conftest import Write

T = TypeVar("T")
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


def test_an_iterator_of_a_cloud_moves_between_threads(write_job: Write) -> None:
    """As a web server reads it: each item in a thread of a pool, and the end in another one."""
    script = "for n in 1 2 3 4; do echo loss=$n; sleep 0.3; done"
    run = {"command": ["bash", "-c", script], "launcher": "once"}
    path = write_job(target="vertex", image={"base": "base:1", "source": "src"}, run=run)

    def elsewhere(call: Callable[[], T]) -> T:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(call).result()

    submitted = rsctl.api.submit(path, rehearse=Rehearsal("process", QUICK))
    abandoned = submitted.watch()
    elsewhere(lambda: next(abandoned))
    elsewhere(abandoned.close)  # type: ignore[attr-defined]
    abandoned = submitted.follow()
    elsewhere(lambda: next(abandoned))
    elsewhere(abandoned.close)  # type: ignore[attr-defined]
    assert RunFolder(submitted.id).supervisor() is None  # the lock is free

    events = submitted.follow()
    followed = list(iter(lambda: elsewhere(lambda: next(events, None)), None))
    values = [event.value for event in followed if isinstance(event, MetricEvent)]
    assert [value for value in values if value in (1, 2, 3, 4)] == [1, 2, 3, 4]
    assert submitted.state is JobState.SUCCEEDED


def test_what_cannot_be_rehearsed_is_an_error(write_job: Write) -> None:
    path = cloud_job(write_job)
    with pytest.raises(RsctlError, match="already runs on this machine"):
        rsctl.api.submit(path, "process", rehearse=Rehearsal())
    with pytest.raises(RsctlError, match="there is no field 'mood'"):
        rsctl.api.submit(path, rehearse=Rehearsal("process", {"mood": "bad"}))
    assert rsctl.api.runs() == []
