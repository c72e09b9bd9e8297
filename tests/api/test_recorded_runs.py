"""What the store alone tells about runs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rsctl import api
from rsctl.api import JobState, MetricEvent, RsctlError, Store
from rsctl.api.run_list import awaited_clouds, known_replicas, known_runs

from .recorded import add, at


def test_the_clouds_that_may_still_tell_the_state_of_a_run() -> None:
    """A run on this machine, or one that has ended, waits for no cloud."""
    add("job-1", target="vertex")
    add("job-2", target="vertex")
    add("job-3", "succeeded", target="sagemaker")
    add("job-4", "cancelling", target="sagemaker")
    add("job-5")
    assert awaited_clouds() == ["Vertex AI", "SageMaker"]
    assert awaited_clouds(excluded=[JobState.CANCELLING]) == ["Vertex AI"]
    found = {run: awaited_clouds(run) for run in ("job-2", "job-3", "job-4", "job-5")}
    assert found == {"job-2": ["Vertex AI"], "job-3": [], "job-4": ["SageMaker"], "job-5": []}
    assert awaited_clouds("sagemaker://us-east-1/another") == ["SageMaker"]
    with pytest.raises(RsctlError, match="there is no run 'job-9'"):
        awaited_clouds("job-9")


def test_the_replicas_and_the_ids_of_recorded_runs() -> None:
    add("job-1")
    add("job-2")
    assert known_replicas("job-1") == ["worker-0", "worker-1", "ps-0"]
    assert known_runs(1) == ["job-2"]
    assert known_runs(5) == known_runs(0) == ["job-2", "job-1"]


def test_how_the_gradients_of_a_run_travel() -> None:
    """None unless they go over reducers."""
    run = api.Run(add("job-1"))
    assert run.gradients() is None
    value = {"operations": 7.0, "reduced_bytes": 8e6, "busy_seconds": 2.0, "gbit_per_second": 0.5}
    Store().add_metrics(
        "job-1",
        [
            MetricEvent(time=at(2), replica="worker-0", name=f"node.transport.{n}", value=v)
            for n, v in value.items()
        ],
    )
    found = run.gradients()
    assert found is not None
    assert (found.operations, found.bytes, found.seconds, found.gbps) == (7, 8_000_000, 2.0, 0.5)


def test_a_limit_counts_groups_of_runs_in_the_states_that_are_asked_for() -> None:
    for number, state in enumerate(["failed", "succeeded", "failed", "succeeded", "succeeded"]):
        add(f"job-{number}", state)
    groups = {"job-1": "b-1", "job-2": "b-1", "job-3": "b-2", "job-4": "b-2"}

    def listed(limit: int | None, *states: JobState) -> list[str]:
        return [run.id for run in api.runs(limit, groups=groups, states=states)]

    assert listed(1) == ["job-4", "job-3"]
    assert listed(2) == ["job-4", "job-3", "job-2", "job-1"]
    assert listed(0) == listed(None) == [f"job-{number}" for number in (4, 3, 2, 1, 0)]
    assert listed(1, JobState.FAILED) == ["job-2"]
    assert listed(2, JobState.FAILED) == listed(0, JobState.FAILED) == ["job-2", "job-0"]
    assert listed(1, JobState.SUCCEEDED) == ["job-4", "job-3"]


def test_the_result_of_a_run_that_was_never_recorded_is_a_failure() -> None:
    """As of a trial of a bench whose submission was refused."""
    found = api.make_result("job-1", None, {}, 4)
    assert (found.state, found.exit_code) == (JobState.FAILED, 4)
    assert (found.attempt, found.attempts, found.results, found.cost) == (1, [], {}, None)


def test_the_result_of_a_recorded_run_has_its_start_and_its_failure() -> None:
    run = replace(add("job-1", "failed"), attempt=3)
    found = api.make_result("job-1", run, {"loss": {"last": 1.0}}, 1)
    assert (found.run, found.state, found.attempt, found.url) == (
        *("job-1", JobState.FAILED),
        *(3, "process://job-1"),
    )
    assert (found.metrics, found.time > at(1)) == ({"loss": {"last": 1.0}}, True)
