"""Training metrics by timeSeries.list, from the telemetry that nodes print."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rsctl.runs.stream.events import now
from rsctl.targets.vertex.emulator import Behaviour
from tests.kit.polling import wait_until
from tests.targets.vertex.emulator.conftest import FakeNodes, Project, error, pool

RECEIVED = "ml.googleapis.com/training/network/received_bytes_count"
CPU_USE = "ml.googleapis.com/training/cpu/utilization"
END = "2026-11-21T10:10:00Z"


def at(minute: int, second: int = 0) -> str:
    return f"2026-11-21T10:{minute:02}:{second:02}.000000Z"


@pytest.fixture
def job(project: Project, behaviour: Behaviour) -> str:
    """A job whose nodes have printed telemetry; the worker's counters begin anew once."""
    behaviour.measure = 0.0
    behaviour.pace = 1.0
    behaviour.queue = behaviour.provision = behaviour.stagger = 0.0
    job, nodes = project.start(pool(), {}, pool())
    told: list[tuple[str, str, dict[str, Any]]] = [
        ("workerpool0-0", at(1), {"cpu_percent": 200.0, "net_rx_bytes": 1000}),
        ("workerpool0-0", at(2), {"cpu_percent": 100.0, "net_rx_bytes": 7000, "gpus": []}),
        ("workerpool0-0", at(3), {"cpu_percent": 300.0, "net_rx_bytes": 600}),
        ("workerpool2-0", at(1), {"net_rx_bytes": 0, "net_tx_bytes": 5}),
        ("workerpool2-0", at(1, 30), {"net_rx_bytes": 3000, "net_tx_bytes": 5}),
        ("workerpool2-0", at(2), {"net_rx_bytes": 9000, "net_tx_bytes": "many"}),
    ]
    for task, when, fields in told:
        telemetry(nodes, task, when, fields)
    nodes.say("workerpool0-0", '{"rsctl": "telemetry", broken', at=at(4))
    nodes.say("workerpool0-0", '{"rsctl": "metrics", "cpu_percent": 5}', at=at(4))
    return job


def telemetry(nodes: FakeNodes, task: str, when: str, fields: dict[str, Any]) -> None:
    nodes.say(task, json.dumps({"rsctl": "telemetry", **fields}), at=when)


def ask(project: Project, metric: str, job: str, more: str = "", **query: str) -> Any:
    wanted = {
        "filter": f'metric.type="{metric}" AND resource.type="cloudml_job" AND '
        f'resource.labels.job_id="{job}"{more}',
        "interval.startTime": at(0),
        "interval.endTime": END,
        **{name.replace("_", "."): value for name, value in query.items()},
    }
    place = f"{project.emulator.url}/v3/projects/rehearsal/timeSeries"
    return project.session.get(place, params=wanted)


def values(answer: Any) -> dict[str, list[tuple[str, Any]]]:
    """By task, the end of each interval and the value, the newest first."""
    return {
        series["resource"]["labels"]["task_name"]: [
            (point["interval"]["endTime"][14:19], *point["value"].values())
            for point in series["points"]
        ]
        for series in answer.json().get("timeSeries", [])
    }


def test_what_a_time_series_looks_like(project: Project, job: str) -> None:
    answer = ask(project, RECEIVED, job, ' resource.labels.task_name="workerpool2-0"')
    assert answer.json() == {
        "timeSeries": [
            {
                "metric": {"type": RECEIVED},
                "resource": {
                    "type": "cloudml_job",
                    "labels": {
                        "job_id": job,
                        "task_name": "workerpool2-0",
                        "project_id": "rehearsal",
                    },
                },
                "metricKind": "DELTA",
                "valueType": "INT64",
                "points": [
                    {
                        "interval": {"startTime": at(1, 30), "endTime": at(2)},
                        "value": {"int64Value": "6000"},
                    },
                    {
                        "interval": {"startTime": at(1), "endTime": at(1, 30)},
                        "value": {"int64Value": "3000"},
                    },
                ],
            }
        ]
    }


def test_aligned(project: Project, job: str) -> None:
    rate = {"aggregation_alignmentPeriod": "60s", "aggregation_perSeriesAligner": "ALIGN_RATE"}
    assert values(ask(project, RECEIVED, job, **rate)) == {
        "workerpool0-0": [("03:00", 10.0), ("02:00", 100.0)],
        "workerpool2-0": [("02:00", 150.0)],
    }
    mean = {"aggregation_alignmentPeriod": "600s", "aggregation_perSeriesAligner": "ALIGN_MEAN"}
    answer = ask(project, CPU_USE, job, **mean)
    assert values(answer) == {"workerpool0-0": [("10:00", 0.5)]}  # 200 % of four vCPUs
    series = answer.json()["timeSeries"][0]
    assert (series["metricKind"], series["valueType"]) == ("GAUGE", "DOUBLE")


def test_a_window_of_time(project: Project, job: str) -> None:
    later = {"interval_startTime": at(2, 30)}
    assert values(ask(project, CPU_USE, job, **later)) == {"workerpool0-0": [("03:00", 0.75)]}
    assert ask(project, CPU_USE, "1").json() == {}


def test_memory_and_gpus(project: Project, job: str) -> None:
    nodes = project.runner.jobs[job]
    gpus = [
        {"index": 0, "util_percent": 90, "memory_bytes": 1, "memory_total_bytes": 4},
        {"index": 1, "util_percent": 70, "memory_bytes": 3, "memory_total_bytes": 4},
    ]
    telemetry(nodes, "workerpool0-0", at(5), {"rss_bytes": 3 * (1 << 30), "gpus": gpus})
    prefix = "ml.googleapis.com/training/"
    for name, value in (
        ("accelerator/utilization", 0.8),
        ("accelerator/memory/utilization", 0.5),
        ("memory/utilization", 0.2),
    ):
        assert values(ask(project, prefix + name, job)) == {"workerpool0-0": [("05:00", value)]}


def test_measurements_come_late(project: Project, behaviour: Behaviour, job: str) -> None:
    behaviour.measure = 1e6
    before = values(ask(project, CPU_USE, job))
    telemetry(project.runner.jobs[job], "workerpool0-0", at(6), {"cpu_percent": 1.0})
    assert values(ask(project, CPU_USE, job)) == before


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"filter": 'resource.type="cloudml_job"'}, 400, 'metric.type = "..." is required'),
        ({"filter": "("}, 400, "Unparseable filter"),
        ({"filter": 'metric.type="a/b"'}, 404, 'Cannot find metric(s) that match type = "a/b".'),
        ({"interval_endTime": ""}, 400, "is not RFC 3339"),
        ({"interval_startTime": "2026-11-22T00:00:00Z"}, 400, "cannot be later than"),
        (
            {"aggregation_perSeriesAligner": "ALIGN_PERCENTILE_99"},
            501,
            "the aligner ALIGN_PERCENTILE_99 is not emulated by rsctl's emulator",
        ),
        (
            {"aggregation_perSeriesAligner": "ALIGN_RATE"},
            400,
            "The aligner ALIGN_RATE is not valid for a metric with kind GAUGE",
        ),
        (
            {"aggregation_perSeriesAligner": "ALIGN_RATE", "aggregation_alignmentPeriod": "10s"},
            400,
            "must be at least 60s",
        ),
        ({"bogus": "1"}, 400, 'Unknown name "bogus"'),
    ],
)
def test_what_is_refused(
    project: Project, query: dict[str, str], status: int, message: str
) -> None:
    answer = ask(project, CPU_USE, "1", **query)
    assert error(answer)[0] == status
    assert message in error(answer)[2]


def test_another_project_has_no_series(project: Project) -> None:
    place = f"{project.emulator.url}/v3/projects/other/timeSeries"
    assert error(project.session.get(place))[:2] == (403, "PERMISSION_DENIED")


def test_a_deleted_job_has_no_series(project: Project, job: str) -> None:
    project.runner.jobs[job].exit("workerpool0-0", 0)
    project.wait(job, "SUCCEEDED")
    wait_until(lambda: project.emulator.is_idle)
    assert project.session.delete(f"{project.url}/{job}").status_code == 200
    assert ask(project, CPU_USE, job).json() == {}


def test_a_job_whose_nodes_print_no_telemetry_is_measured(
    project: Project, behaviour: Behaviour
) -> None:
    behaviour.measure = 0.0
    project.runner.prepare = lambda nodes: nodes.used.update(
        {"cpu_percent": 200.0, "rss_bytes": 1 << 30, "net_rx_bytes": 5}
    )
    job, nodes = project.start(pool())
    found = wait_until(lambda: current(project, CPU_USE, job))
    assert found["workerpool0-0"] == 0.5  # of 4 vCPUs
    telemetry(nodes, "workerpool0-0", now(), {"cpu_percent": 40.0})
    assert wait_until(lambda: current(project, CPU_USE, job)) == {"workerpool0-0": 0.1}


def current(project: Project, metric: str, job: str) -> dict[str, Any]:
    """By task, the newest value."""
    answer = ask(project, metric, job, interval_startTime=at(0), interval_endTime=now())
    return {task: found[0][1] for task, found in values(answer).items()}
