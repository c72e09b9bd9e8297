"""Cloud Monitoring's metrics, and what they say of Reduction Server."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, Finding, RsctlError, note
from rsctl.runs.stream.events import LogEvent
from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.vertex.client import VertexService
from rsctl.targets.vertex.job import VertexJob
from rsctl.targets.vertex.metrics import span_of
from rsctl.targets.vertex.transport_status import notice, reduction_server_facts

from .fake_google import FakeGoogle

GOOGLES = "europe-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"


def job_with(reducer: str | None) -> dict[str, Any]:
    pools: list[dict[str, Any]] = [{"replicaCount": "1"}, {"replicaCount": "1"}]
    if reducer:
        pools.append({"replicaCount": "2", "containerSpec": {"imageUri": reducer}})
    return {"jobSpec": {"workerPoolSpecs": pools}}


@pytest.fixture
def job(google: FakeGoogle) -> VertexJob:
    google.jobs.append(
        {
            "name": "projects/1/locations/us-central1/customJobs/5",
            "state": "JOB_STATE_SUCCEEDED",
            "createTime": "2026-11-21T10:00:00Z",
            "endTime": "2026-11-21T10:20:00Z",
            **job_with(GOOGLES),
        }
    )
    return VertexService(Endpoints.of_environment()).open("vertex://rehearsal/us-central1/5")


def series(task: str, *points: tuple[str, Any]) -> dict[str, Any]:
    return {
        "resource": {"type": "cloudml_job", "labels": {"job_id": "5", "task_name": task}},
        "points": [
            {"interval": {"endTime": f"2026-11-21T{time}Z"}, "value": value}
            for time, value in points
        ],
    }


def test_measurements_become_metrics(google: FakeGoogle, job: VertexJob) -> None:
    later, first = ("10:02:00", {"doubleValue": 5e8}), ("10:01:00", {"doubleValue": 4e8})
    google.series["network/received_bytes_count"] = [series("workerpool2-1", later, first)]
    gpus = [series("workerpool1-0", ("10:01:00", {"doubleValue": part})) for part in (0.5, 0.9)]
    google.series["accelerator/utilization"] = [*gpus, series("service", later)]
    sent = [series("workerpool0-0", ("10:01:00", {"int64Value": "7"}))]
    google.series["network/sent_bytes_count"] = sent
    measured = job.measure("2026-11-21T10:00:30.000000Z", [])
    assert [(m.time[11:19], m.replica, m.name, m.value) for m in measured] == [
        ("10:01:00", "worker-1", "cloud.accelerator.utilization", 0.7),
        ("10:01:00", "reducer-1", "cloud.network.received_bytes_per_s", 4e8),
        ("10:01:00", "worker-0", "cloud.network.sent_bytes_per_s", 7),
        ("10:02:00", "reducer-1", "cloud.network.received_bytes_per_s", 5e8),
    ]
    assert {q["aggregation.perSeriesAligner"] for q in google.queries} == {
        "ALIGN_MEAN",
        "ALIGN_RATE",
    }
    assert len(google.queries) == 6


def test_nothing_is_measured_twice() -> None:
    assert span_of(1_000_030.0, 1_000_290.0, 1.0) == (1_000_020.0, 1_000_260.0)
    assert span_of(1_000_260.0, 1_000_290.0, 1.0) is None
    assert span_of(0.0, 1_000_290.0, 1.0) == (1_000_260.0 - 7200, 1_000_260.0)
    assert span_of(12.0, 14.3, 1 / 60) == (12.0, 14.0)


def test_measurements_that_are_forbidden(google: FakeGoogle, job: VertexJob) -> None:
    google.faults.add(Fault("series", status=403, code="PERMISSION_DENIED", message="no"))
    with pytest.raises(RsctlError) as caught:
        job.measure(None, [])
    assert caught.value.exit_code is ExitCode.REFUSED
    google.faults.add(Fault("series", status=503, times=3))
    with pytest.raises(Unreachable, match="Cloud Monitoring gives no answer: HTTP status 503"):
        job.measure(None, [])


def traffic(sent: float, *received: float) -> dict[str, dict[str, float]]:
    measured = {f"worker-{n}": {"network.sent_bytes_per_s": sent / 2} for n in range(2)}
    for n, value in enumerate(received):
        measured[f"reducer-{n}"] = {"network.received_bytes_per_s": value}
    return measured


WRONG = note("wrong-plugin", "")
MISSING = note("no-plugin", "")


@pytest.mark.parametrize(
    ("measured", "noticed", "is_engaged", "why", "text"),
    [
        (
            traffic(2e9, 1e9, 0.9e9), [], True, "traffic",
            "engaged: the reducers receive 1.9 GB/s, 95% of the data that the workers send",
        ),
        (
            traffic(2e9, 1.9e9, 0.0), [], True, "traffic",
            "engaged: the reducers receive 1.9 GB/s, 95% of the data that the workers send; 1 of "
"2 reducers receive almost nothing",
        ),
        (
            traffic(2e9, 1e3, 1e3), [], False, "no-traffic",
            "not engaged: the workers send 2 GB/s, the reducers receive almost nothing; look for "
"NET/ in the log with NCCL_DEBUG=INFO",
        ),
        (
            traffic(2e9, 1e3, 1e3), [WRONG], False, "wrong-plugin",
            "not engaged: the workers send 2 GB/s, the reducers receive almost nothing; NCCL has "
"loaded Fast Socket, which does not support Reduction Server",
        ),
        (traffic(2e9, 1e9, 1e9), [WRONG], True, "traffic",
         "engaged: the reducers receive 2 GB/s, 100% of the data that the workers send"),
        (traffic(1e3, 1e3), [], None, "idle",
         "not yet known: the workers send almost nothing"),
        ({}, [], None, "unmeasured", "not yet known: no traffic has been measured"),
        ({}, [MISSING], False, "no-plugin",
         "not engaged: NCCL finds no network plugin in the image"),
    ],
)  # fmt: skip
def test_whether_reduction_server_is_at_work(
    measured: Any, noticed: list[Finding], is_engaged: bool | None, why: str, text: str
) -> None:
    (fact,) = reduction_server_facts(measured, {"request": {"body": job_with(GOOGLES)}}, noticed)
    assert (fact.name, fact.text) == ("reduction_server", text)
    assert (fact.value["engaged"], fact.value["why"]) == (is_engaged, why)


@pytest.mark.parametrize("plan", [{}, {"request": {"body": job_with(None)}}, {"request": None}])
def test_jobs_without_it(plan: Any) -> None:
    assert reduction_server_facts(traffic(2e9), plan, [WRONG]) == []
    (fact,) = reduction_server_facts(traffic(2e9), plan, [note("network-bound", "")])
    assert fact.text.endswith("try reducers.count: auto")
    assert reduction_server_facts({}, {"request": {"body": job_with("p/our/image")}}, []) == []


@pytest.mark.parametrize(
    ("text", "reducers", "code"),
    [
        ("worker:1:1 [0] NCCL INFO NET/FastSocket plugin initialized", True, "wrong-plugin"),
        ("x NCCL INFO NET/FastSocket : Using [0]ens12:10.0.0.2<0>", True, "wrong-plugin"),
        ("x NCCL INFO NET/FastSocket plugin initialized", False, None),
        ("x NCCL INFO NET/Plugin : No plugin found (libnccl-net.so)", True, "no-plugin"),
        ("x NCCL INFO NET/Plugin: Could not find: libnccl-net.so", True, "no-plugin"),
        ("x NCCL INFO NET/Plugin : No plugin found (libnccl-net.so)", False, None),
        ("This training job might be network bound. Reduction Server boosts", False,
         "network-bound"),
        ("loss=0.5", True, None),
    ],
)  # fmt: skip
def test_what_lines_tell(text: str, reducers: bool, code: str | None) -> None:
    found = notice(LogEvent("", "worker-0", "1", "stdout", text), reducers)
    assert (found and found.code) == code


def test_a_job_knows_its_reducers_once_it_was_looked_at(job: VertexJob) -> None:
    line = LogEvent("", "worker-0", "1", "stdout", "NET/FastSocket plugin initialized")
    assert job.notice(line) is None
    job.status()
    assert job.notice(line) is not None
