"""What Vertex AI and SageMaker really say, from public reports: each has a cause and a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.findings import Finding
from rsctl.targets.base import Pool
from rsctl.targets.sagemaker import failure_reason
from rsctl.targets.sagemaker.emulator import outcomes as sagemaker_outcomes
from rsctl.targets.sagemaker.errors import find_known
from rsctl.targets.vertex.emulator import outcomes as vertex_outcomes
from rsctl.targets.vertex.errors import refusal
from rsctl.targets.vertex.job_address import JobAddress
from rsctl.targets.vertex.status import status_of
from tests.fixtures import real

ADDRESS = JobAddress.of_url("vertex://my-project/us-central1/42")


def texts(cloud: str, kind: str) -> pytest.MarkDecorator:
    """The real texts, by their beginning."""
    chosen = [e for e in real("cloud_errors") if (e["cloud"], e["kind"]) == (cloud, kind)]
    assert chosen
    return pytest.mark.parametrize("entry", chosen, ids=lambda entry: entry["text"][:50])


def seen(findings: list[Finding]) -> list[dict[str, str | None]]:
    assert all(finding.remedy for finding in findings)
    return [{"code": finding.code, "path": finding.path} for finding in findings]


def expected(entry: dict[str, Any]) -> list[dict[str, str | None]]:
    return [entry["finding"]] if entry["finding"]["code"] else []


def vertex_status(
    text: str, code: int = 3, pools: tuple[int, ...] = (1,), **scheduling: str
) -> Any:
    job = {
        "state": "JOB_STATE_FAILED",
        "endTime": "2026-11-21T11:03:05Z",
        "error": {"code": code, "message": text},
        "jobSpec": {
            "workerPoolSpecs": [{"replicaCount": str(count)} if count else {} for count in pools],
            "scheduling": scheduling,
        },
    }
    return status_of(job, ADDRESS, 0.0)


@texts("vertex", "failure")
def test_failed_jobs_of_vertex(entry: dict[str, Any]) -> None:
    status = vertex_status(entry["text"], entry["status"])
    assert seen(status.findings) == expected(entry)
    assert [failure.replica for failure in status.failed] == entry["failed"]


@pytest.mark.parametrize(
    ("pools", "message", "path", "failed"),
    [
        ((1, 1), "worker-1 ran out of memory", "workers.machine", ["worker-1"]),
        ((1, 3), "one of worker-1, worker-2, worker-3 ran out of memory", "workers.machine", []),
        ((1,), "one of the replicas of workerpool1 ran out of memory", "workers.machine", []),
    ],
)
def test_a_pool_that_is_low_on_memory(
    pools: tuple[int, ...], message: str, path: str, failed: list[str]
) -> None:
    text = (
        "Replicas low on memory: workerpool1. Specify a machine with larger memory and try again."
    )
    status = vertex_status(text, pools=pools)
    assert [(f.message, f.path) for f in status.findings] == [(message, path)]
    assert [failure.replica for failure in status.failed] == failed


def test_several_pools_that_are_low_on_memory() -> None:
    text = "Replicas low on memory: workerpool0, workerpool2. Specify a machine with larger memory."
    status = vertex_status(text, pools=(1, 0, 2))
    assert [(f.message, f.path) for f in status.findings] == [
        ("worker-0 ran out of memory", "workers.machine"),
        ("one of ps-0, ps-1 ran out of memory", "roles.ps.machine"),
    ]


def test_a_job_with_flex_start_is_not_advised_to_use_it() -> None:
    text = "Resources are insufficient in region: us-central1. Please try a different region."
    (standard,) = vertex_status(text).findings
    (flexible,) = vertex_status(text, strategy="FLEX_START").findings
    assert "targets.vertex.capacity: flex-start" in standard.remedy
    assert "flex" not in flexible.remedy


ROLES = ("worker", "worker", "reducer", "data")


class Answer:
    """An answer of the API, as far as refusals need it."""

    url = "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1"

    def __init__(self, status: int, message: str) -> None:
        self.status_code = status
        self.headers = {"Content-Type": "application/json; charset=UTF-8"}
        self._message = message

    def json(self) -> Any:
        """The body."""
        return {"error": {"code": self.status_code, "message": self._message}}


@texts("vertex", "refusal")
def test_refused_jobs_of_vertex(entry: dict[str, Any]) -> None:
    problem = refusal(Answer(entry["status"], entry["text"]), "us-central1", ROLES)
    assert seen(list(problem.findings)) == expected(entry)


class Page(Answer):
    """A page of Google's front end, where the API has no server."""

    def __init__(self, status: int) -> None:
        super().__init__(status, "")
        self.headers = {"Content-Type": "text/html; charset=UTF-8"}

    def json(self) -> Any:
        """Raises ValueError."""
        raise ValueError


def test_a_region_without_vertex() -> None:
    """Another answer of this status is of the API, about something that the job names."""
    [finding] = refusal(Page(404), "us-central1", ROLES).findings
    assert finding.message == f"Vertex AI is not available at {Answer.url}"
    assert finding.path == "targets.vertex.region"
    [finding] = refusal(Answer(404, "The KMS key is gone."), "us-central1", ROLES).findings
    assert finding.message.endswith("The KMS key is gone.")


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        (
            "Machine type a2-ultragpu-1g is not supported in location us-west2.",
            "machine",
            "workers.machine",
        ),
        ("Unsupported region for Vertex AI: us-west9.", "region", "targets.vertex.region"),
    ],
)
def test_what_a_region_does_not_have(text: str, code: str, path: str) -> None:
    [finding] = refusal(Answer(400, text), "us-central1", ROLES).findings
    assert (finding.code, finding.path) == (code, path)
    assert "region" in str(finding.remedy)


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("job_spec.worker_pool_specs[1].machine_spec.machine_type", "workers.machine"),
        ("job_spec.worker_pool_specs[2].machine_spec.machine_type", "reducers.machine"),
        ("job_spec.worker_pool_specs[2].replica_count", "reducers.count"),
        ("job_spec.worker_pool_specs[3].machine_spec.machine_type", "roles.data.machine"),
        ("job_spec.worker_pool_specs[3].machine_spec.accelerator_type", "roles.data.accelerator"),
        ("job_spec.worker_pool_specs[3].container_spec.args", "roles.data.args"),
        ("job_spec.worker_pool_specs[0].disk_spec.boot_disk_size_gb", "workers.disk"),
        ("job_spec.worker_pool_specs[0].container_spec.image_uri", "image"),
        ("job_spec.worker_pool_specs[0].container_spec.env[3].name", "run.env"),
        ("job_spec.worker_pool_specs[0]", "workers"),
        ("job_spec.scheduling.timeout", "limits.timeout"),
        ("job_spec.tensorboard", "targets.vertex.tensorboard"),
        ("custom_job.display_name", "name"),
        ("job_spec.something_new", "targets.vertex"),
    ],
)
def test_a_field_that_is_refused_leads_to_its_key(field: str, path: str) -> None:
    text = (
        f"List of found errors:\t1.Field: {field}; Message: Wrong.\t2.Field: labels; Message: No."
    )
    problem = refusal(Answer(400, text), "us-central1", ROLES)
    assert [(f.path, f.message.partition("HTTP status 400: ")[0]) for f in problem.findings] == [
        (path, f"Vertex AI: {field}: Wrong."),
        ("targets.vertex.labels", "Vertex AI: labels: No."),
    ]


@texts("sagemaker", "failure")
def test_failed_jobs_of_sagemaker(entry: dict[str, Any]) -> None:
    answer = {"FailureReason": entry["text"]}
    assert seen(failure_reason.findings(answer)) == expected(entry)
    pools = [Pool(role="worker", count=1)]
    found = failure_reason.failures(answer, pools, "2026-11-21T11:03:05Z")
    assert [[one.replica, one.exit_code] for one in found] == entry["failed"]


@texts("sagemaker", "refusal")
def test_refused_jobs_of_sagemaker(entry: dict[str, Any]) -> None:
    known = find_known(entry["error"], entry["text"])
    assert known is not None
    assert {"code": known.code, "path": known.path} == entry["finding"]
    assert known.remedy


@pytest.mark.parametrize(
    ("cloud", "said"),
    [
        ("vertex", vertex_outcomes.stocked_out("us-central1").message),
        ("vertex", vertex_outcomes.exited("workerpool0-0", 137, [], "URL").message),
        ("vertex", vertex_outcomes.exited("workerpool0-0", 1, [], "URL").message),
        ("vertex", vertex_outcomes.LOST.message),
        ("sagemaker", sagemaker_outcomes.NO_CAPACITY.reason),
        ("sagemaker", sagemaker_outcomes.LOST.reason),
    ],
)
def test_the_emulators_say_what_the_clouds_say(cloud: str, said: str) -> None:
    """Up to what tells jobs apart, such as where its log is."""
    failures = [e for e in real("cloud_errors") if (e["cloud"], e["kind"]) == (cloud, "failure")]
    known = [" ".join(e["text"].partition(" To find out")[0].split()) for e in failures]
    assert any(" ".join(said.split()).startswith(text) for text in known), said
