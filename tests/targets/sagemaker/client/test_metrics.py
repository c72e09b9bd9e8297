"""CloudWatch's measurements of a job's machines, by replica, each once."""

from __future__ import annotations

import time

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.retries import RetryPolicy
from rsctl.runs.stream.events import MetricEvent
from rsctl.targets.base import Pool
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.sagemaker.client import SageMakerService

from .conftest import Serve
from .fake_cloudwatch import FakeCloudWatch

JOB = "bert-7f3k2a"
POOLS = [
    Pool(role="worker", count=1, machine="ml.g5.12xlarge"),
    Pool(role="reducer", count=1, machine="ml.c5n.9xlarge"),
]
CREATED = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
def watch(serve: Serve) -> FakeCloudWatch:
    fake = FakeCloudWatch()
    serve(fake)
    return fake


def summary(events: list[MetricEvent]) -> list[tuple[str, str, float]]:
    return [(event.replica, event.name, event.value) for event in events]


def test_values_are_reported_by_replica_and_once(watch: FakeCloudWatch) -> None:
    minute = time.time() // 60 * 60
    watch.series = {
        (f"{JOB}/algo-1", "CPUUtilization"): [(minute - 300, 80.0), (minute - 240, 81.5)],
        (f"{JOB}/algo-2", "GPUUtilization"): [(minute - 300, 390.0)],
        (f"{JOB}/algo-2", "GPUMemoryUtilization"): [(minute - 300, 200.0)],
        (f"{JOB}/algo-2", "MemoryUtilization"): [(minute - 300, 12.0)],
        (f"{JOB}/algo-2", "DiskUtilization"): [(minute - 300, 3.0), (minute, 4.0)],
        ("other/algo-2", "CPUUtilization"): [(minute - 300, 1.0)],
    }
    reported = {f"{JOB}/algo-1-1": "reducer-0", f"{JOB}/algo-2-1": "worker-0"}
    job = SageMakerService(Endpoints.of_environment(), RetryPolicy()).open(
        f"sagemaker://us-east-1/{JOB}"
    )
    job.log({"hosts": {"told": reported, "guessed": {}}}, POOLS, CREATED)
    assert summary(job.measure(None, POOLS)) == [
        ("reducer-0", "cloud.cpu_percent", 80.0),
        ("worker-0", "cloud.disk_percent", 3.0),
        ("worker-0", "cloud.gpu_memory_percent", 200.0),
        ("worker-0", "cloud.gpu_percent", 390.0),
        ("worker-0", "cloud.memory_percent", 12.0),
        ("reducer-0", "cloud.cpu_percent", 81.5),
    ]
    watch.series[f"{JOB}/algo-2", "CPUUtilization"] = [(minute - 180, 7.0)]
    assert summary(job.measure(None, POOLS)) == [("worker-0", "cloud.cpu_percent", 7.0)]
    assert job.measure(None, POOLS) == []


def test_only_machines_with_gpus_are_asked_for_them(watch: FakeCloudWatch) -> None:
    reported = {f"{JOB}/algo-1-1": "reducer-0", f"{JOB}/algo-2-1": "worker-0"}
    job = SageMakerService(Endpoints.of_environment(), RetryPolicy()).open(
        f"sagemaker://us-east-1/{JOB}"
    )
    job.log({"hosts": {"told": reported, "guessed": {}}}, POOLS, CREATED)
    job.measure(None, POOLS)
    queries = [query["MetricStat"] for query in watch.asked[0]["MetricDataQueries"]]
    asked = {(q["Metric"]["Dimensions"][0]["Value"], q["Metric"]["MetricName"]) for q in queries}
    common = ("CPUUtilization", "MemoryUtilization", "DiskUtilization")
    gpus = ("GPUUtilization", "GPUMemoryUtilization")
    assert asked == {
        *((f"{JOB}/algo-1", name) for name in common),
        *((f"{JOB}/algo-2", name) for name in (*common, *gpus)),
    }
    assert {query["Period"] for query in queries} == {60}
    assert {query["Metric"]["Namespace"] for query in queries} == {"/aws/sagemaker/TrainingJobs"}


def test_values_of_a_call_that_failed_are_asked_for_again(watch: FakeCloudWatch) -> None:
    minute = time.time() // 60 * 60
    names = [f"{JOB}/algo-{host}" for host in (1, 2, 3)]
    watch.series = {(name, "CPUUtilization"): [(minute - 300, 1.0)] for name in names}
    job = SageMakerService(Endpoints.of_environment(), RetryPolicy()).open(
        f"sagemaker://us-east-1/{JOB}"
    )
    pools = [Pool(role="worker", count=3, machine="ml.m5.xlarge")]
    watch.fail_page = 2
    with pytest.raises(Unreachable):
        job.measure(CREATED, pools)
    assert len(job.measure(CREATED, pools)) == 3


def test_what_was_measured_before_a_time_is_left_out(watch: FakeCloudWatch) -> None:
    minute = time.time() // 60 * 60
    watch.series = {
        (f"{JOB}/algo-1", "CPUUtilization"): [(minute - 300 + 60 * i, float(i)) for i in range(4)]
    }
    job = SageMakerService(Endpoints.of_environment(), RetryPolicy()).open(
        f"sagemaker://us-east-1/{JOB}"
    )
    pools = [Pool(role="worker", count=1, machine="ml.m5.xlarge")]
    first = job.measure(CREATED, pools)
    again = SageMakerService(Endpoints.of_environment(), RetryPolicy()).open(
        f"sagemaker://us-east-1/{JOB}"
    )
    assert [event.value for event in again.measure(first[1].time, pools)] == [2.0, 3.0]
