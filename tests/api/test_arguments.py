"""Arguments that a function does not take: each is an RsctlError that names it, before anything
happens.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import rsctl.api as api
from rsctl.api import ExitCode, JobState, Rehearsal, RsctlError
from tests.kit.polling import DEADLINE_SECONDS

from .conftest import Write

NAN = float("nan")
JOB = "job.yaml"


def refusal(call: Callable[..., object], *given: Any, **named: Any) -> str:
    with pytest.raises(RsctlError) as refused:
        call(*given, **named)
    assert refused.value.exit_code is ExitCode.USAGE
    assert all(finding.remedy for finding in refused.value.findings)
    return refused.value.summary


REFERENCES: list[Callable[[Any], object]] = [
    *(api.run, api.bench, api.find, api.forget_run, api.is_job_url, api.prepare_rerun),
    *(api.load, api.gate, api.compare, api.results_of, api.prepare_bench, api.submit),
    lambda value: api.diff(value, value),
    lambda value: api.emulate(value).__enter__(),
    lambda value: api.prepare(JOB, run_id=value),
    lambda value: api.prepare(JOB, resume=value),
    lambda value: api.calibrate_from([value]),
    *(api.profile_of_run, api.read_series, api.prepare_bisect, api.known_run, api.known_replicas),
    lambda value: api.add_bench(value, "@last"),
    lambda value: api.write_baseline("@last", value),
    lambda value: api.gate(JOB, baseline=value, max_regression={"loss": "5%"}),
    lambda value: api.gate(JOB, history=value, max_regression={"loss": "5%"}),
]


@pytest.mark.parametrize("call", REFERENCES)
@pytest.mark.parametrize("value", [3, b"job", ["job"], object()])
def test_a_reference_that_is_not_text(
    write_job: Write, call: Callable[[Any], object], value: object
) -> None:
    write_job()
    message = refusal(call, value)
    assert repr(value)[:80] in message
    assert "is not a" in message


@pytest.mark.parametrize("call", [api.run, api.bench, api.find, api.forget_run, api.load])
def test_no_reference(write_job: Write, call: Callable[[Any], object]) -> None:
    """Such as the result of a function that has returned nothing."""
    assert ": None is not a " in refusal(call, None)


@pytest.mark.parametrize("call", [api.run, api.bench, api.find, api.compare, api.prepare_rerun])
def test_a_reference_that_cannot_be_stored(write_job: Write, call: Callable[[Any], object]) -> None:
    assert "is not valid Unicode" in refusal(call, "job-\udc80")


COUNTS: list[tuple[str, int, Callable[[Any], object]]] = [
    ("limit", 0, api.runs),
    ("limit", 0, api.benches),
    ("tail", 0, lambda n: api.run("@last").logs(tail=n)),
    ("tail", 0, lambda n: api.run("@last").metrics(tail=n)),
    ("tail", 0, lambda n: api.run("@last").event_batches(n)),
    ("max_unpacked", 0, lambda n: api.run("@last").fetch("results", max_unpacked=n)),
    ("repeat", 1, lambda n: api.run_bench(JOB, repeat=n)),
    ("repeat", 1, lambda n: api.prepare_bench(JOB).claim(n)),
    ("parallel", 1, lambda n: api.run_bench(JOB, parallel=n)),
    ("parallel", 1, lambda n: api.gate(JOB, baseline="b.json", parallel=n)),
    ("repeat", 1, lambda n: api.gate(JOB, repeat=n)),
    ("confirm", 0, lambda n: api.gate(JOB, confirm=n)),
    ("looks", 1, lambda n: api.gate(JOB, looks=n)),
    ("window", 1, lambda n: api.gate(JOB, window=n)),
    ("port", 0, lambda n: api.emulate("vertex", runner="process", port=n).__enter__()),
]


def test_a_number_out_of_its_limits(write_job: Write) -> None:
    api.submit(write_job("true")).wait()
    for name, least, call in COUNTS:
        for value in (least - 1, True, NAN, float("inf"), 1.5, "2", 2**70):
            assert f"{name}: {value!r} is not an integer" in refusal(call, value)
    assert api.benches() == []


@pytest.mark.parametrize("value", [NAN, True, "9"])
def test_a_time_limit_that_is_not_a_number(write_job: Write, value: Any) -> None:
    run = api.submit(write_job("sleep 300"))
    assert "timeout: " in refusal(run.wait, value)
    assert "timeout: " in refusal(run.cancel, value)
    assert not run.status().state.is_final
    assert "limit: " in refusal(api.Budget, value)


@pytest.mark.parametrize("value", [3, "x" * 60_000])
def test_a_pattern_of_names_that_no_store_takes(value: Any) -> None:
    assert "name: " in refusal(api.runs, name=value)


def test_a_number_that_no_store_holds(write_job: Write) -> None:
    assert refusal(api.runs, 2**70) == f"limit: {2**70} is not an integer from 0 to {2**53}"


def test_a_budget_below_nothing() -> None:
    assert refusal(api.Budget, -1) == "limit: -1 is not a number of 0 or more"


def test_a_run_that_has_ended_is_not_late(write_job: Write) -> None:
    run = api.submit(write_job())
    run.wait()
    assert run.wait(timeout=0).state is JobState.SUCCEEDED


def test_a_cancellation_without_waiting_ends_the_run(write_job: Write) -> None:
    run = api.submit(write_job("echo up; sleep 300"))
    next(run.logs(follow=True))
    with suppress(RsctlError):  # it may end in time
        run.cancel(timeout=0)
    assert run.wait(timeout=DEADLINE_SECONDS).state is JobState.CANCELLED


def test_one_string_in_place_of_several(write_job: Write) -> None:
    """Its characters would be the names: no metric, no file, or every file."""
    run = api.submit(write_job())
    run.wait()
    calls: dict[str, Callable[[Any], object]] = {
        "names": run.metrics,
        "replicas": lambda value: run.logs(replicas=value),
        "only": lambda value: run.fetch("results", only=value),
        "include": lambda value: run.fetch("results", include=value),
        "metrics": lambda value: api.compare(run, run, metrics=value),
        "required": lambda value: api.write_baseline(run, "b.json", required=value),
        "set": lambda value: api.load(JOB, set=value),
        "cells": lambda value: api.read_series("h.jsonl", cells=value),
        "metrics of a bisection": lambda value: api.prepare_bisect(JOB, metrics=value),
        "cells of a bisection": lambda value: api.prepare_bisect(JOB, cells=value),
        "max_regression": lambda value: api.gate(JOB, baseline="b", max_regression=value),
    }
    for name, call in calls.items():
        name = name.partition(" ")[0]
        message = refusal(call, "loss")
        assert message == f"{name}: 'loss' is one string, not a list of strings"
        assert f"{name}: 3 is not a" in refusal(call, [3])
        assert f"{name}: None is not a list" in refusal(call, None)
    assert not Path("results").exists()


def test_names_that_do_not_exist(write_job: Write) -> None:
    run = api.submit(write_job())
    run.wait()
    assert "only: 'log' is not a kind" in refusal(run.fetch, "results", only=["log"])
    assert "states: ['done'] is not a list" in refusal(api.runs, states=["done"])
    assert [each.id for each in api.runs(states=[JobState.SUCCEEDED])] == [run.id]
    assert api.runs(states=[JobState.FAILED]) == []


def test_times(write_job: Write) -> None:
    """A time in another zone, or a duration, is as good as one in UTC."""
    run = api.submit(write_job("echo up"))
    run.wait()
    zone = timezone(timedelta(hours=14))
    before = datetime.now(zone) - timedelta(hours=1)
    for since in (before, before.isoformat(), "1h"):
        assert "up" in [line.text for line in run.logs(since=since)]
        assert [each.id for each in api.runs(since=since)] == [run.id]
    after = datetime.now(timezone(timedelta(hours=-11))) + timedelta(hours=1)
    for since in (after, after.isoformat()):
        assert not list(run.logs(since=since))
        assert not api.runs(since=since)
    for wrong in ("yesterday", 3):
        assert f"since: {wrong!r} is neither" in refusal(run.logs, since=wrong)
        assert f"since: {wrong!r} is neither" in refusal(api.runs, since=wrong)


def test_how_a_cloud_is_emulated(write_job: Write, tmp_path: Path) -> None:
    write_job()
    unknown: Any = "podman"
    for call in (api.prepare, api.prepare_bench):
        message = refusal(call, JOB, "vertex", rehearse=True)
        assert message == "rehearse: True is not a Rehearsal"
        message = refusal(call, JOB, "vertex", rehearse=Rehearsal(unknown))
        assert "'podman' is not a runner" in message
    assert "'podman'" in refusal(api.emulate("vertex", runner=unknown).__enter__)
    folder = str(tmp_path / "buckets")
    with api.emulate("vertex", runner="process", source="src", folder=folder) as cloud:
        assert cloud.folder == Path(folder)


def test_a_stop_function_that_returns_something_else(write_job: Write) -> None:
    """Such as True: the bench would not stop."""
    message = refusal(api.run_bench, write_job(), stop=lambda: True)
    assert message == "stop: the function has returned True"


def test_nothing_to_compare() -> None:
    assert refusal(api.compare) == "there is nothing to compare"


def test_a_location_may_be_a_path(write_job: Write, tmp_path: Path) -> None:
    """As the path of a job file may; a bucket's URL is text."""
    run = api.submit(write_job())
    run.wait()
    written = api.write_baseline(run, tmp_path / "b.json")
    assert api.compare(Path(written.location), run).sides[0].kind == "baseline"
    nothing = "no history here.jsonl"
    assert nothing in refusal(api.read_series, tmp_path / nothing)
    assert nothing in refusal(api.gate, JOB, history=tmp_path / nothing, repeat=1)
