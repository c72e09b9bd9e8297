"""What Google's own SDK sends for our jobs, to the emulator of Vertex AI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google.auth
import pytest
from google.auth.transport.requests import AuthorizedSession

from rsctl.findings import ExitCode, RsctlError
from rsctl.targets.vertex.emulator import VertexEmulator
from rsctl.targets.vertex.sdk import code, custom_job
from tests.kit.deferred import Deferred
from tests.kit.loopback import keep_google_auth_here

from ..vertex.emulator.conftest import FakeRunner
from .conftest import RUN, VERTEX, PlanOf

aiplatform = Deferred("google.cloud.aiplatform")

FULL = VERTEX.replace("a@b.example", "a@b.example, web_access: true, experiment: e")
RUN_BLOCK = """
run: {command: [ls], launcher: once, env: {HF_TOKEN: "${HF_TOKEN}"}}
reducers: {count: 2}
limits: {timeout: 1h, retries: 1}
"""


@pytest.fixture
def emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VertexEmulator]:
    """An emulated project to which the SDK is turned."""
    for name in [n for n in os.environ if n.startswith(("GOOGLE_", "CLOUDSDK_"))]:
        monkeypatch.delenv(name)
    keep_google_auth_here(monkeypatch)
    monkeypatch.setenv("HF_TOKEN", "hidden")
    with VertexEmulator(tmp_path / "cloud", FakeRunner(), "my-project") as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        credentials, _ = google.auth.default()
        aiplatform.init(
            project="my-project",
            location="us-central1",
            credentials=credentials,
            api_endpoint=emulator.url,
            api_transport="rest",
        )
        yield emulator


def sent(emulator: VertexEmulator) -> dict[str, Any]:
    """The job spec and the labels that the emulator was sent, less the secrets."""
    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    place = "v1/projects/my-project/locations/us-central1/customJobs"
    listed = AuthorizedSession(credentials).get(f"{emulator.url}/{place}").json()
    (job,) = listed["customJobs"]
    for pool in filter(None, job["jobSpec"]["workerPoolSpecs"]):  # the service fills in the default
        assert pool.pop("diskSpec") == {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100}
    return {"jobSpec": _hidden(job["jobSpec"]), "labels": job["labels"]}


def _hidden(value: Any) -> Any:
    if isinstance(value, list):
        return [_hidden(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("name") in ("RSCTL_TOKEN", "HF_TOKEN"):
        assert value["value"]
        return {"name": value["name"], "value": None}
    return {key: _hidden(item) for key, item in value.items()}


def test_a_job_that_the_sdk_submits_is_the_one_that_rsctl_would(
    emulator: VertexEmulator, plan_of: PlanOf
) -> None:
    submission = plan_of("vertex", RUN_BLOCK + FULL)
    plan, job = submission.plan, submission.job
    custom_job(job, RUN).submit()
    body = plan.request["body"]
    assert sent(emulator) == {"jobSpec": body["jobSpec"], "labels": body["labels"]}


def test_the_printed_code_submits_the_same_job(emulator: VertexEmulator, plan_of: PlanOf) -> None:
    submission = plan_of("vertex", RUN_BLOCK + VERTEX)
    plan = submission.plan
    printed = code(submission).replace("job.run(", "job.submit(")
    exec(compile(printed, "printed", "exec"), {})
    body = plan.request["body"]
    assert sent(emulator) == {"jobSpec": body["jobSpec"], "labels": body["labels"]}


def test_roles_are_pools_of_the_sdk_too(emulator: VertexEmulator, plan_of: PlanOf) -> None:
    """Pool 1 is empty where the chief is the only worker."""
    roles = "run: {command: [ls], launcher: once}\nroles: {evaluator: {ends: by-itself}, ps: {}}\n"
    submission = plan_of("vertex", roles + VERTEX.replace("count: 2", "count: 1"))
    printed = code(submission).replace("job.run(", "job.submit(")
    exec(compile(printed, "printed", "exec"), {})
    assert sent(emulator)["jobSpec"] == submission.plan.request["body"]["jobSpec"]


def test_without_credentials_the_remedy_is_named(
    plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [n for n in os.environ if n.startswith(("GOOGLE_", "CLOUDSDK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setattr(aiplatform.initializer.global_config, "_credentials", None)
    job = plan_of("vertex", VERTEX).job
    with pytest.raises(RsctlError) as caught:
        custom_job(job, RUN)
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    [found] = caught.value.findings
    assert found.code == "credentials-missing"
    assert found.message.startswith("there are no Google Cloud credentials: ")
    assert (found.remedy or "").startswith("run `gcloud auth application-default login`, or set ")


def test_a_job_without_a_bucket_is_sent_without_one(
    emulator: VertexEmulator, plan_of: PlanOf
) -> None:
    """Where the SDK's own constructor would have put a folder of its own."""
    text = VERTEX.replace("outputs: gs://bucket/out", "run: {command: [ls], launcher: none}")
    submission = plan_of("vertex", text)
    plan, job = submission.plan, submission.job
    custom_job(job, RUN).submit()
    assert "baseOutputDirectory" not in plan.request["body"]["jobSpec"]
    assert sent(emulator)["jobSpec"] == plan.request["body"]["jobSpec"]
