"""Google's own client libraries, unmodified, against the emulator."""

from __future__ import annotations

import json
from typing import Any

import google.auth
import pytest
from google.api_core import exceptions
from google.api_core.client_options import ClientOptions

from tests.kit.deferred import Deferred
from tests.kit.polling import wait_until
from tests.targets.vertex.emulator.conftest import IMAGE, Project

aiplatform = Deferred("google.cloud.aiplatform")
aiplatform_v1 = Deferred("google.cloud.aiplatform_v1")

PARENT = "projects/rehearsal/locations/us-central1"
SPECS = [
    {
        "machine_spec": {
            "machine_type": "n1-standard-8",
            "accelerator_type": "NVIDIA_TESLA_T4",
            "accelerator_count": 1,
        },
        "replica_count": 1,
        "container_spec": {"image_uri": IMAGE, "args": ["--x"], "env": [{"name": "A"}]},
    },
    {},
    {"machine_spec": {"machine_type": "n1-highcpu-16"}, "replica_count": 2,
     "container_spec": {"image_uri": IMAGE}},
]  # fmt: skip


@pytest.fixture
def client(project: Project) -> Any:
    credentials, _ = google.auth.default()
    return aiplatform_v1.JobServiceClient(
        transport="rest",
        credentials=credentials,
        client_options=ClientOptions(api_endpoint=project.emulator.url),
    )


def test_custom_job_submit(project: Project) -> None:
    credentials, _ = google.auth.default()
    aiplatform.init(
        project="rehearsal",
        location="us-central1",
        staging_bucket="gs://staging",
        credentials=credentials,
        api_endpoint=project.emulator.url,
        api_transport="rest",
    )
    job = aiplatform.CustomJob(display_name="bert", worker_pool_specs=SPECS, labels={"team": "a"})
    job.submit(timeout=3600, disable_retries=True)
    assert job.resource_name.startswith("projects/123456789012/locations/us-central1/customJobs/")
    identity = job.resource_name.rpartition("/")[2]
    nodes = wait_until(lambda: project.runner.jobs.get(identity))
    chief = nodes.node("workerpool0-0")
    assert (chief.image, chief.args, chief.env["A"]) == (IMAGE, ["--x"], "")
    assert json.loads(chief.env["CLUSTER_SPEC"])["cluster"].keys() == {"workerpool0", "workerpool2"}
    shown = project.get(identity)
    assert shown["jobSpec"]["scheduling"] == {"timeout": "3600s", "disableRetries": True}
    assert shown["jobSpec"]["workerPoolSpecs"][1] == {}
    assert shown["labels"] == {"team": "a"}
    project.wait(identity, "RUNNING")
    assert job.state == aiplatform_v1.JobState.JOB_STATE_RUNNING
    nodes.exit("workerpool0-0", 1)
    project.error(identity)
    assert job.state == aiplatform_v1.JobState.JOB_STATE_FAILED
    assert (job.error.code, "non-zero status of 1" in job.error.message) == (3, True)


def test_job_service(project: Project, client: Any) -> None:
    job = aiplatform_v1.CustomJob(
        display_name="j", job_spec={"worker_pool_specs": SPECS}, labels={"rsctl-run": "r-1"}
    )
    created = client.create_custom_job(parent=PARENT, custom_job=job)
    assert created.state == aiplatform_v1.JobState.JOB_STATE_QUEUED
    assert created.job_spec.worker_pool_specs[2].replica_count == 2
    listed = client.list_custom_jobs(
        aiplatform_v1.ListCustomJobsRequest(
            parent=PARENT, filter="labels.rsctl-run=r-1", page_size=1
        )
    )
    assert [one.name for one in listed] == [created.name]
    client.cancel_custom_job(name=created.name)
    identity = created.name.rpartition("/")[2]
    project.wait(identity, "CANCELLED")
    project.error(identity)
    got = client.get_custom_job(name=created.name)
    assert (got.state, got.error.code) == (aiplatform_v1.JobState.JOB_STATE_CANCELLED, 1)
    client.delete_custom_job(name=created.name).result()
    with pytest.raises(exceptions.NotFound):
        client.get_custom_job(name=created.name)


def test_errors_are_googles(project: Project, client: Any) -> None:
    pools = [
        {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "replica_count": 2,
            "container_spec": {"image_uri": IMAGE},
        }
    ]
    job = {"display_name": "j", "job_spec": {"worker_pool_specs": pools}}
    with pytest.raises(exceptions.BadRequest, match="must have a replica_count of 1"):
        client.create_custom_job(parent=PARENT, custom_job=job)
    with pytest.raises(exceptions.Forbidden):
        client.list_custom_jobs(parent=PARENT.replace("rehearsal", "other"))
    project.emulator.access.expire()
    with pytest.raises(exceptions.BadRequest):  # google-auth signs a new token
        client.create_custom_job(parent=PARENT, custom_job=job)
