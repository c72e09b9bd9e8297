"""Custom jobs over real HTTP: created once, found again, asked and cancelled."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, JobState, RsctlError
from rsctl.targets.base import ImagePlan, Plan, Pool, Unanswered
from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.managed.emulator.http import Reply
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.vertex.client import VertexService

from .fake_google import FakeGoogle

RUN = "bert-abc234"
JOBS = "https://us-central1-aiplatform.googleapis.com/v1/projects/rehearsal/locations/us-central1/customJobs"
BODY: dict[str, Any] = {"displayName": "bert", "jobSpec": {}, "labels": {"rsctl-run": RUN}}
REQUEST = {"method": "POST", "url": JOBS, "body": BODY}
URL = "vertex://rehearsal/us-central1/1"


def plan() -> Plan:
    image = ImagePlan(tag=None, transport="none")
    return Plan(
        run=RUN, target="vertex", image=image, pools=[], world_size=1, env={}, request=REQUEST
    )


def create() -> str:
    return VertexService(Endpoints.of_environment()).create(plan().run, REQUEST)


def refusal() -> tuple[ExitCode, str, str, str | None]:
    with pytest.raises(RsctlError) as caught:
        create()
    (finding,) = caught.value.findings
    return caught.value.exit_code, finding.code, str(finding.remedy), finding.path


def test_a_job_is_created_as_it_was_planned(google: FakeGoogle) -> None:
    assert create() == URL
    sent = {key: google.jobs[0][key] for key in BODY}
    assert sent == BODY


@pytest.mark.parametrize("cut", ["request", "answer"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_answer_makes_no_second_job(google: FakeGoogle, cut: Any, times: int) -> None:
    google.faults.add(Fault("create", cut=cut, times=times))
    assert create() == URL
    assert len(google.jobs) == 1


def test_a_submission_that_was_killed_is_found(google: FakeGoogle) -> None:
    assert VertexService(Endpoints.of_environment()).find(REQUEST, RUN) is None
    create()
    assert VertexService(Endpoints.of_environment()).find(REQUEST, RUN) == URL
    assert create() == URL
    assert len(google.jobs) == 1


def test_of_several_jobs_it_is_always_the_first(google: FakeGoogle) -> None:
    create()
    for number in (2, 3):
        google.jobs.append(
            {
                "name": f"projects/123/locations/us-central1/customJobs/{number}",
                "labels": {"rsctl-run": RUN},
                "createTime": f"2029-01-01T00:00:0{number}Z",
            }
        )
    assert VertexService(Endpoints.of_environment()).find(REQUEST, RUN) == URL
    assert VertexService(Endpoints.of_environment()).find(REQUEST, "bert-other2") is None


@pytest.mark.parametrize("status", [429, 500, 503])
def test_trouble_that_passes(google: FakeGoogle, status: int) -> None:
    google.faults.add(Fault("create", status=status, times=2))
    google.faults.add(Fault("list", status=status, times=2))
    assert create() == URL


def test_trouble_that_does_not_pass(google: FakeGoogle) -> None:
    google.faults.add(Fault("create", status=429, code="RESOURCE_EXHAUSTED", times=100))
    assert refusal()[:2] == (ExitCode.REFUSED, "quota")
    assert google.count("create") == 7


@pytest.mark.parametrize(
    "fault", [Fault("create", cut="request", times=100), Fault("create", status=503, times=100)]
)
def test_answers_that_never_come_leave_it_open(google: FakeGoogle, fault: Fault) -> None:
    google.faults.add(fault)
    with pytest.raises(Unanswered) as caught:
        create()
    reported = caught.value.findings[-1]
    assert (reported.severity, reported.message) == (
        "warning",
        f"it is unknown whether the job of {RUN} exists",
    )


@pytest.mark.parametrize(
    ("fault", "code", "remedy", "path"),
    [
        (
            Fault("create", status=429, code="RESOURCE_EXHAUSTED", message="The following quota "
                  "metrics exceed quota limits: aiplatform.googleapis.com/"
                  "custom_model_training_nvidia_t4_gpus"),
            "quota", "ask for more of custom_model_training_nvidia_t4_gpus in us-central1", None,
        ),
        (
            Fault("create", status=429, code="RESOURCE_EXHAUSTED", message="The following quota "
                  "metrics exceed quota limits: aiplatform.googleapis.com/"
                  "custom_model_training_cpus"),
            "quota", "reducers also need CPUs", None,
        ),
        (
            Fault("create", status=400, code="INVALID_ARGUMENT", message="You do not have "
                  "permission to act as service_account: a@b.iam.gserviceaccount.com. (or it may "
                  "not exist)."),
            "denied", "roles/iam.serviceAccountUser", "targets.vertex.service_account",
        ),
        (
            Fault("create", status=400, code="INVALID_ARGUMENT", message="Required field is not "
                  "set: custom_job.job_spec.worker_pool_specs"),
            "cloud", "or targets.vertex.overlay", "targets.vertex",
        ),
        (
            Fault("create", status=400, code="INVALID_ARGUMENT",
                  message='Machine type "a2-highgpu-1g" is not supported.'),
            "machine", "another region", "workers.machine",
        ),
        (
            Fault("create", status=400, code="INVALID_ARGUMENT",
                  message='Machine type "c3-standard-8" is not supported.'),
            "machine", "another region does not help", "workers.machine",
        ),
        (
            Fault("create", status=400, code="FAILED_PRECONDITION", message="Vertex AI Service "
                  "Agent service-1@gcp-sa-aiplatform.iam.gserviceaccount.com does not have "
                  "permission to access Artifact Registry repository x."),
            "service-agent", "roles/artifactregistry.reader", "targets.vertex",
        ),
        (
            Fault("create", status=400, code="INVALID_ARGUMENT",
                  message="The image us-docker.pkg.dev/p/r/i@sha256:1 does not exist."),
            "image", "this agent pulls the image", "image",
        ),
        (
            Fault("create", status=403, code="SERVICE_DISABLED", message="Vertex AI API has not "
                  "been used in project 1 before or it is disabled."),
            "api-disabled", "enable it at https://console", "targets.vertex",
        ),
        (
            Fault("create", status=403, code="PERMISSION_DENIED", message="Permission "
                  "'aiplatform.customJobs.create' denied"),
            "denied", "ask for the permission that the message names", "targets.vertex",
        ),
    ],
)  # fmt: skip
def test_what_users_meet(
    google: FakeGoogle, fault: Fault, code: str, remedy: str, path: str | None
) -> None:
    google.faults.add(fault)
    exit_code, found, reported, field = refusal()
    assert (exit_code, found, field) == (ExitCode.REFUSED, code, path)
    assert remedy in reported
    assert google.count("create") == 1


def test_credentials_that_have_expired(google: FakeGoogle) -> None:
    google.faults.add(Fault("oauth2.token", status=400, code="invalid_grant", times=100))
    assert refusal()[:2] == (ExitCode.ENVIRONMENT, "credentials-expired")


def test_a_service_that_is_not_there(monkeypatch: pytest.MonkeyPatch, google: FakeGoogle) -> None:
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", "http://127.0.0.1:9")
    with pytest.raises(RsctlError) as caught:
        VertexService(Endpoints.of_environment()).find(REQUEST, RUN)
    assert caught.value.summary == (
        "127.0.0.1:9 gives no answer: Failed to establish a new connection: [Errno 111] Connection "
        "refused"
    )


def test_an_endpoint_that_is_no_vertex(google: FakeGoogle) -> None:
    request = {**REQUEST, "url": JOBS.replace("customJobs", "pipelineJobs")}
    with pytest.raises(RsctlError, match="is not an address of custom jobs"):
        VertexService(Endpoints.of_environment()).create(plan().run, request)
    with pytest.raises(RsctlError, match="is not an address of custom jobs"):
        VertexService(Endpoints.of_environment()).find({}, RUN)


@pytest.mark.parametrize(
    "url",
    ["vertex://p/r", "vertex://p/r/x", "sagemaker://p/r/1", "vertex://p/../1", "vertex:///r/1"],
)
def test_what_is_no_url_of_a_job(url: str) -> None:
    with pytest.raises(RsctlError) as caught:
        VertexService(Endpoints.of_environment()).open(url)
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.findings[0].remedy == "write it as vertex://PROJECT/REGION/ID"


def test_a_job_that_does_not_exist(google: FakeGoogle) -> None:
    job = VertexService(Endpoints.of_environment()).open("vertex://rehearsal/us-central1/9")
    with pytest.raises(RsctlError, match="does not exist"):
        job.status()


def test_a_cloud_that_cannot_be_reached_is_no_failure_of_the_job(google: FakeGoogle) -> None:
    job = VertexService(Endpoints.of_environment()).open(create())
    google.faults.add(Fault("get", status=503, times=3))
    with pytest.raises(Unreachable, match="Vertex AI gives no answer: HTTP status 503: made to"):
        job.status()
    assert job.status().state is JobState.QUEUED


def test_a_page_of_a_proxy_does_not_say_that_a_job_is_gone(google: FakeGoogle) -> None:
    job = VertexService(Endpoints.of_environment()).open(create())
    [index] = [n for n, each in enumerate(google.routes) if each.name == "get"]
    page = Reply(404, b"<html>Not Found</html>", {"Content-Type": "text/html"})
    google.routes[index] = google.routes[index]._replace(handler=lambda _: page)
    with pytest.raises(Unreachable, match="the answer is not a JSON object"):
        job.status()


def test_cancelling(google: FakeGoogle) -> None:
    job = VertexService(Endpoints.of_environment()).open(create())
    job.cancel()
    assert job.status().state is JobState.CANCELLING
    google.jobs[0]["state"] = "JOB_STATE_SUCCEEDED"
    job.cancel()
    assert job.status().state is JobState.SUCCEEDED


def test_a_job_that_cannot_be_cancelled(google: FakeGoogle) -> None:
    job = VertexService(Endpoints.of_environment()).open(create())
    google.faults.add(Fault("cancel", status=400, code="FAILED_PRECONDITION", message="not now"))
    with pytest.raises(RsctlError, match="not now"):
        job.cancel()


def test_what_a_job_is_that_others_submitted(google: FakeGoogle) -> None:
    """As google-cloud-aiplatform sends it: no label, no variable of ours."""
    gpu = {"machineType": "n1-standard-16", "acceleratorType": "NVIDIA_TESLA_V100"}
    variables = [{"name": "DATABASE", "value": "secret"}, {"name": "NCCL_DEBUG", "value": "INFO"}]
    container = {"imageUri": "gcr.io/p/i", "env": variables}
    worker = {"machineSpec": {**gpu, "acceleratorCount": 2}, "containerSpec": container}
    reducer = {
        "machineSpec": {"machineType": "n1-highcpu-16"},
        "containerSpec": {
            "imageUri": "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
        },
        "replicaCount": "4",
    }
    pools = [{**worker, "replicaCount": "1"}, {**worker, "replicaCount": "3"}, reducer]
    google.jobs.append(
        {
            "name": "projects/123/locations/us-central1/customJobs/77",
            "displayName": "others job",
            "state": "JOB_STATE_RUNNING",
            "createTime": "2026-11-21T10:00:00.5Z",
            "jobSpec": {"workerPoolSpecs": pools, "scheduling": {}},
        }
    )
    described = (
        VertexService(Endpoints.of_environment())
        .open("vertex://rehearsal/us-central1/77")
        .describe()
    )
    assert (described.name, described.run) == ("others job", None)
    assert described.created == "2026-11-21T10:00:00.500000Z"
    assert described.pools == [
        Pool(role="worker", count=4, machine="n1-standard-16", accelerator="v100:2", gbps=32),
        Pool(role="reducer", count=4, machine="n1-highcpu-16", gbps=32),
    ]
    sent = described.request["body"]["jobSpec"]["workerPoolSpecs"]
    assert sent[1]["containerSpec"]["env"] == [{"name": "DATABASE", "value": None}, variables[1]]
    assert "state" not in described.request["body"]


def test_a_job_with_empty_pools(google: FakeGoogle) -> None:
    one = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1"}
    google.jobs.append(
        {
            "name": "projects/123/locations/us-central1/customJobs/78",
            "createTime": "2026-11-21T10:00:00Z",
            "jobSpec": {"workerPoolSpecs": [one, {}, {**one, "replicaCount": 2}]},
            "labels": {"rsctl-run": RUN},
        }
    )
    described = (
        VertexService(Endpoints.of_environment())
        .open("vertex://rehearsal/us-central1/78")
        .describe()
    )
    assert [(pool.role, pool.count) for pool in described.pools] == [("worker", 1), ("ps", 2)]
    assert (described.name, described.run) == ("78", RUN)


@pytest.mark.parametrize(("own", "charged"), [(None, "rehearsal"), ("billing", "billing")])
def test_calls_of_a_user_are_charged_to_a_project(
    google: FakeGoogle, monkeypatch: pytest.MonkeyPatch, own: str | None, charged: str
) -> None:
    login = {
        "type": "authorized_user",
        "client_id": "c",
        "client_secret": "s",
        "refresh_token": "r",
        "token": "t",
        "expiry": "2099-01-01T00:00:00Z",
    }
    login |= {"quota_project_id": own} if own else {}
    file = Path(os.environ["GOOGLE_APPLICATION_CREDENTIALS"])
    file.write_text(json.dumps(login))
    seen: list[str | None] = []
    monkeypatch.setattr(
        google, "authorize", lambda request: seen.append(request.headers.get("x-goog-user-project"))
    )
    assert create() == URL
    assert set(seen) == {charged}
