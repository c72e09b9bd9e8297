"""What CloudWatch has measured, by GetMetricData, and a job's own metrics."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from rsctl.targets.sagemaker.emulator import Behaviour
from tests.kit.polling import wait_until
from tests.targets.sagemaker.emulator.conftest import Account, body, client, refused

NAMESPACE = "/aws/sagemaker/TrainingJobs"
GIB = 1 << 30


@pytest.fixture
def behaviour() -> Behaviour:
    """A minute of measurements is one: periods are not scaled, nothing is late."""
    return Behaviour(pace=1.0, launch=0.0, prepare=0.0, image=0.0, upload=0.0, measure=0.0)


def asked(account: Account, *metrics: tuple[str, str, str], period: int = 60) -> dict[str, Any]:
    queries = [
        {
            "Id": f"m{number}",
            "MetricStat": {
                "Metric": {
                    "Namespace": NAMESPACE,
                    "MetricName": metric,
                    "Dimensions": [{"Name": dimension, "Value": value}],
                },
                "Period": period,
                "Stat": "Average",
            },
        }
        for number, (dimension, value, metric) in enumerate(metrics)
    ]
    end = datetime(2026, 6, 1, 13, tzinfo=timezone.utc)
    wanted = {"StartTime": end - timedelta(hours=1), "EndTime": end}
    return {"MetricDataQueries": queries, **wanted, "ScanBy": "TimestampAscending"}


def telemetry(**fields: Any) -> str:
    return json.dumps({"rsctl": "telemetry", **fields})


def test_machines_are_measured_by_the_minute(account: Account) -> None:
    nodes = account.start(ResourceConfig={**body()["ResourceConfig"], "InstanceCount": 2})
    gpus = [
        {"util_percent": 90, "memory_bytes": GIB, "memory_total_bytes": 4 * GIB},
        {"util_percent": 70, "memory_bytes": 3 * GIB, "memory_total_bytes": 4 * GIB},
    ]
    for second, percent in ((1, 100), (31, 150), (61, 50)):
        at = f"2026-06-01T12:0{second // 60}:{second % 60:02}.000000Z"
        line = telemetry(cpu_percent=percent, rss_bytes=2 * GIB, gpus=gpus)
        nodes.say("algo-2", line, at)
    nodes.say("algo-2", telemetry(cpu_percent="many"), "2026-06-01T12:02:00.000000Z")
    names = ("CPUUtilization", "MemoryUtilization", "GPUUtilization", "GPUMemoryUtilization")
    metrics = [("Host", "j/algo-2", name) for name in names]
    wanted = asked(account, *metrics, ("Host", "j/algo-1", "CPUUtilization"))
    found = client("cloudwatch").get_metric_data(**wanted)["MetricDataResults"]
    noon = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
    times = [noon, noon + timedelta(minutes=1)]
    assert [(series["Id"], series["Values"]) for series in found] == [
        ("m0", [125.0, 50.0]),
        ("m1", [25.0, 25.0]),
        ("m2", [160.0, 160.0]),
        ("m3", [100.0, 100.0]),
        ("m4", []),
    ]
    assert found[0]["Timestamps"] == times
    backwards = client("cloudwatch").get_metric_data(**{**wanted, "ScanBy": "TimestampDescending"})
    assert backwards["MetricDataResults"][0]["Values"] == [50.0, 125.0]


def test_measurements_are_late(account: Account, behaviour: Behaviour) -> None:
    behaviour.measure = 1e6
    nodes = account.start()
    nodes.say("algo-1", telemetry(cpu_percent=1), "2026-06-01T12:00:00.000000Z")
    wanted = asked(account, ("Host", "j/algo-1", "CPUUtilization"))
    found = client("cloudwatch").get_metric_data(**wanted)["MetricDataResults"]
    assert found[0]["Values"] == []


def test_metrics_that_the_job_defines(account: Account) -> None:
    algorithm = {
        **body()["AlgorithmSpecification"],
        "MetricDefinitions": [
            {"Name": "loss", "Regex": "loss=([0-9.]+)"},
            {"Name": "word", "Regex": "is (.*)"},
        ],
    }
    nodes = account.start(AlgorithmSpecification=algorithm)
    nodes.say("algo-1", "step 1 loss=2.5 is fine", "2026-06-01T12:00:01.000000Z")
    nodes.say("algo-1", "step 2 loss=1.5", "2026-06-01T12:00:02.000000Z")
    nodes.say("algo-1", "step 3 loss=0.5")
    wanted = asked(account, ("TrainingJobName", "j", "loss"))
    found = client("cloudwatch").get_metric_data(**wanted)["MetricDataResults"]
    assert found[0]["Values"] == [2.0]
    nodes.exit("algo-1")
    (metric,) = account.wait("j", "Completed")["FinalMetricDataList"]
    assert (metric["MetricName"], metric["Value"]) == ("loss", 0.5)


def test_what_cannot_be_asked(account: Account) -> None:
    wanted = asked(account, ("Host", "j/algo-1", "CPUUtilization"))
    call = client("cloudwatch").get_metric_data
    wanted["MetricDataQueries"][0]["MetricStat"]["Stat"] = "p99"
    assert refused(call, **wanted)[0] == "ValidationError"
    wanted["StartTime"] = wanted["EndTime"]
    assert "StartTime must be less" in refused(call, **wanted)[1]
    assert wait_until(lambda: account.emulator.is_idle)


def test_statistics_of_one_metric(account: Account) -> None:
    nodes = account.start()
    for second, percent in ((1, 100), (31, 150), (61, 50)):
        at = f"2026-06-01T12:0{second // 60}:{second % 60:02}.000000Z"
        nodes.say("algo-1", telemetry(cpu_percent=percent), at)
    noon = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
    wanted: dict[str, Any] = {
        "Namespace": NAMESPACE,
        "MetricName": "CPUUtilization",
        "Dimensions": [{"Name": "Host", "Value": "j/algo-1"}],
        "StartTime": noon,
        "EndTime": noon + timedelta(hours=1),
        "Period": 60,
        "Statistics": ["Average", "Maximum", "SampleCount"],
    }
    call = client("cloudwatch").get_metric_statistics
    found = call(**wanted)
    assert found["Label"] == "CPUUtilization"
    assert sorted(found["Datapoints"], key=lambda point: point["Timestamp"]) == [
        {"Timestamp": noon, "Unit": "Percent", "Average": 125.0, "Maximum": 150.0,
         "SampleCount": 2.0},
        {"Timestamp": noon + timedelta(minutes=1), "Unit": "Percent", "Average": 50.0,
         "Maximum": 50.0, "SampleCount": 1.0},
    ]  # fmt: skip
    assert call(**{**wanted, "Unit": "Bytes"})["Datapoints"] == []
    long = {**wanted, "Period": 1, "EndTime": noon + timedelta(days=1)}
    assert refused(call, **long)[0] == "InvalidParameterCombination"
    del wanted["Statistics"]
    extended = {**wanted, "ExtendedStatistics": ["p99"]}
    assert refused(call, **extended)[0] == "InvalidParameterCombination"
