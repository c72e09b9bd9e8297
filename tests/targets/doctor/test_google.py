"""What `rsctl doctor` looks at in Google Cloud, over HTTP to an emulator of those services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rsctl.findings import RsctlError
from rsctl.targets.base import Pool
from rsctl.targets.managed.emulator.http import Reply, Request, route
from rsctl.targets.vertex.doctor import google_checks, needed_quotas, signed_in
from rsctl.targets.vertex.doctor_project import scopes_of
from rsctl.targets.vertex.emulator.google_services import GoogleEmulator

from .conftest import JobOf, plan_of, short

JOB = """
inputs:
  train: gs://data/mnli
  val: {uri: {vertex: gs://data/val, sagemaker: s3://elsewhere/val}, mode: copy}
checkpoints: gs://mine/ckpt
targets:
  vertex: {project: p, region: us-central1, staging: gs://mine/staging, service_account: a@b}
"""
PERMISSIONS = [
    *("aiplatform.customJobs.create", "aiplatform.customJobs.get", "aiplatform.customJobs.list"),
    *("aiplatform.customJobs.cancel", "logging.logEntries.list", "monitoring.timeSeries.list"),
]
PLAN = plan_of(
    "vertex",
    Pool(role="worker", count=2, machine="n1-highmem-16", accelerator="v100:8"),
    Pool(role="reducer", count=4, machine="n1-highcpu-16"),
)


class Cloud(GoogleEmulator):
    """The services that a doctor asks; what they say is a test's to change."""

    def __init__(self) -> None:
        super().__init__("p")
        self.enabled = {"aiplatform", "logging", "storage"}
        self.granted = set(PERMISSIONS)
        self.may_act = True
        self.limits: dict[str, int] = {"us-central1": 2200}
        self.buckets = {"data": {"storage.objects.get"}, "mine": {"storage.objects.create"}}
        self.places: dict[str, dict[str, Any]] = {
            "data": {"location": "US", "locationType": "multi-region"},
            "mine": {"location": "US-CENTRAL1", "locationType": "region"},
        }
        self.policy: list[dict[str, Any]] | None = [
            {"role": "roles/logging.logWriter", "members": ["serviceAccount:a@b"]}
        ]
        self.has_scopes = True
        self.routes += [
            route("apis", "GET", "/v1/projects/p/services:batchGet", self._services),
            route("may", "POST", "/v1/projects/p:testIamPermissions", self._may),
            route(
                "act", "POST", "/v1/projects/p/serviceAccounts/a@b:testIamPermissions", self._act
            ),
            route(
                "quota",
                "GET",
                "/v1beta1/projects/p/services/aiplatform.googleapis.com/consumerQuotaMetrics/{m*}",
                self._quota,
            ),
            route("bucket", "GET", "/storage/v1/b/{b}/iam/testPermissions", self._bucket),
            route("policy", "POST", "/v1/projects/p:getIamPolicy", self._policy),
            route("place", "GET", "/storage/v1/b/{b}", self._place),
        ]

    def _policy(self, _request: Request) -> Reply:
        if self.policy is None:
            raise self.refuse(403, "PERMISSION_DENIED", "getIamPolicy denied")
        return Reply.of({"bindings": self.policy})

    def _place(self, request: Request) -> Reply:
        place = self.places.get(request.parts["b"])
        if place is None:
            raise self.refuse(403, "PERMISSION_DENIED", "storage.buckets.get denied")
        return Reply.of(place)

    def _services(self, _request: Request) -> Reply:
        if not self.has_scopes:
            said = "Request had insufficient authentication scopes."
            raise self.refuse(403, "PERMISSION_DENIED", said)
        names = ("aiplatform", "logging", "storage")
        states = {n: "ENABLED" if n in self.enabled else "DISABLED" for n in names}
        services = [
            {"name": f"projects/1/services/{n}.googleapis.com", "state": s}
            for n, s in states.items()
        ]
        return Reply.of({"services": services})

    def _may(self, request: Request) -> Reply:
        wanted = request.json()["permissions"]
        return Reply.of({"permissions": [name for name in wanted if name in self.granted]})

    def _act(self, request: Request) -> Reply:
        return Reply.of(request.json() if self.may_act else {})

    def _quota(self, _request: Request) -> Reply:
        buckets: list[dict[str, Any]] = [{"effectiveLimit": "0"}]
        for region, limit in self.limits.items():
            buckets.append({"effectiveLimit": str(limit), "dimensions": {"region": region}})
        return Reply.of({"consumerQuotaLimits": [{"quotaBuckets": buckets}]})

    def _bucket(self, request: Request) -> Reply:
        granted = self.buckets.get(request.parts["b"])
        if granted is None:
            raise self.refuse(404, "NOT_FOUND", "The specified bucket does not exist.")
        return Reply.of({"permissions": sorted(granted)})


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    emulator = Cloud()
    with emulator:
        key = tmp_path / "key.json"
        emulator.access.write_key(key, f"{emulator.url}/token")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
        for service in ("SERVICEUSAGE", "CLOUDRESOURCEMANAGER", "IAM", "STORAGE"):
            monkeypatch.setenv(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{service}", emulator.url)
        yield emulator


def test_all_is_well(cloud: Cloud, job_of: JobOf) -> None:
    assert short(list(google_checks(job_of(JOB), PLAN))) == [
        ("credentials", "ok", "emulator@p.iam.gserviceaccount.com"),
        ("scopes", "ok", "unknown; no call was refused for them so far"),
        ("apis", "ok", "3 enabled in p"),
        ("permissions", "ok", "all 6 that a submission needs"),
        ("service account", "ok", "you can run jobs as a@b"),
        ("log", "ok", "a@b has roles/logging.logWriter"),
        ("quota custom_model_training_cpus", "ok", "96 of 2200 in us-central1"),
        ("quota custom_model_training_nvidia_v100_gpus", "ok", "16 of 2200 in us-central1"),
        ("gs://data", "ok", "it can be read"),
        ("gs://data region", "ok", "in US, like the job"),
        ("gs://mine", "ok", "it can be written"),
        ("gs://mine region", "ok", "in US-CENTRAL1, like the job"),
    ]


def test_all_is_missing(cloud: Cloud, job_of: JobOf) -> None:
    cloud.enabled -= {"aiplatform"}
    cloud.granted -= {"logging.logEntries.list"}
    cloud.may_act = False
    cloud.limits = {}
    cloud.buckets = {"mine": set()}
    checks = [check for check in google_checks(job_of(JOB), PLAN) if check.verdict != "ok"]
    assert [(c.name, c.verdict, c.message, c.remedy) for c in checks] == [
        (
            "apis",
            "error",
            "not enabled: aiplatform.googleapis.com",
            "`gcloud services enable aiplatform.googleapis.com --project p`",
        ),
        (
            "permissions",
            "warning",
            "missing: logging.logEntries.list",
            "ask for roles/logging.viewer",
        ),
        (
            "service account",
            "warning",
            "you cannot run jobs as a@b: iam.serviceAccounts.actAs is missing",
            "ask for roles/iam.serviceAccountUser on a@b",
        ),
        (
            "quota custom_model_training_cpus",
            "error",
            "96 needed in us-central1, but the quota is 0",
            "ask for more on the console's page Quotas (Vertex AI API), or use another region",
        ),
        (
            "quota custom_model_training_nvidia_v100_gpus",
            "error",
            "16 needed in us-central1, but the quota is 0",
            "ask for more on the console's page Quotas (Vertex AI API), or use another region",
        ),
        (
            "gs://data",
            "error",
            "the bucket does not exist",
            "`gcloud storage buckets create gs://data`",
        ),
        (
            "gs://mine",
            "error",
            "missing: storage.objects.create",
            "ask for roles/storage.objectUser on gs://mine",
        ),
    ]


def test_a_page_of_a_proxy_is_not_an_answer(cloud: Cloud, job_of: JobOf) -> None:
    cloud.routes = [
        each if each.is_open else each._replace(handler=lambda _: Reply(200, b"<html>"))
        for each in cloud.routes
    ]
    checks = {check.name: check.message for check in google_checks(job_of(JOB), PLAN)}
    asked = set(checks) - {"credentials", "scopes", "log", "gs://data region", "gs://mine region"}
    host = cloud.url.removeprefix("http://")
    assert {checks[name] for name in asked} == {
        f"{host} gives no answer: the answer is not a JSON object"
    }


def test_the_roles_that_have_what_is_missing(cloud: Cloud, job_of: JobOf) -> None:
    cloud.granted.clear()
    assert one_check("permissions", job_of) == (
        "warning",
        "missing: aiplatform.customJobs.create, aiplatform.customJobs.get, "
        "aiplatform.customJobs.list, aiplatform.customJobs.cancel, logging.logEntries.list, "
        "monitoring.timeSeries.list",
        "ask for roles/aiplatform.user, roles/logging.viewer, roles/monitoring.viewer",
    )


def test_without_credentials_nothing_else_is_asked(job_of: JobOf) -> None:
    (check,) = google_checks(job_of(JOB), PLAN)
    assert (check.name, check.verdict) == ("credentials", "error")
    assert "there are no Google Cloud credentials" in check.message
    assert [signed_in(v).verdict for v in ("skipped", "error")] == ["skipped", "error"]


def test_credentials_that_are_not_accepted(cloud: Cloud, job_of: JobOf, tmp_path: Path) -> None:
    other = GoogleEmulator("p")
    other.access.write_key(tmp_path / "key.json", f"{cloud.url}/token")
    (check,) = google_checks(job_of(JOB), PLAN)
    assert (check.verdict, "does not accept" in check.message) == ("error", True)


def test_spot_machines_count_against_another_quota(job_of: JobOf) -> None:
    assert needed_quotas(job_of("limits: {spot: true}\n" + JOB), PLAN) == {
        "custom_model_training_preemptible_cpus": 96,
        "custom_model_training_preemptible_nvidia_v100_gpus": 16,
    }


def one_check(name: str, job_of: JobOf) -> tuple[str, str, str]:
    [found] = [c for c in google_checks(job_of(JOB), PLAN) if c.name == name]
    return found.verdict, found.message, found.remedy or ""


@pytest.mark.parametrize(
    ("place", "verdict", "message"),
    [
        (
            {"location": "EUROPE-WEST4"},
            "warning",
            "the bucket is in EUROPE-WEST4, but the job is in",
        ),
        ({"location": "EU"}, "warning", "the bucket is in EU, but the job is in us-central1"),
        ({"location": "NAM4"}, "ok", "in NAM4, like the job"),
        ({"location": "EUR4"}, "warning", "the bucket is in EUR4"),
        (
            {
                "location": "US",
                "customPlacementConfig": {"dataLocations": ["US-EAST1", "US-EAST4"]},
            },
            "warning",
            "the bucket is in US, but the job is in us-central1",
        ),
        (None, "ok", "unknown: you do not have storage.buckets.get"),
    ],
)
def test_where_a_bucket_is(
    place: dict[str, Any] | None, verdict: str, message: str, cloud: Cloud, job_of: JobOf
) -> None:
    cloud.places = {} if place is None else {"mine": place}
    found = one_check("gs://mine region", job_of)
    assert (found[0], message in found[1]) == (verdict, True), found


@pytest.mark.parametrize(
    ("policy", "verdict", "message"),
    [
        (
            [],
            "warning",
            "a@b has no permission to write logs in p: the job would run with an empty log",
        ),
        (
            [{"role": "roles/logging.viewer", "members": ["serviceAccount:a@b"]}],
            "warning",
            "a@b has no permission to write logs in p",
        ),
        ([{"role": "roles/editor", "members": ["serviceAccount:a@b"]}], "ok", "has roles/editor"),
        ([{"role": "roles/editor", "members": ["group:all@b"]}], "ok", "unknown: a@b may have"),
        (
            [{"role": "projects/p/roles/mine", "members": ["serviceAccount:a@b"]}],
            "ok",
            "unknown: a@b may have it through a group or a custom role",
        ),
        (None, "ok", "unknown: you do not have resourcemanager.projects.getIamPolicy"),
    ],
)
def test_whether_the_log_can_be_written(
    policy: list[dict[str, Any]] | None, verdict: str, message: str, cloud: Cloud, job_of: JobOf
) -> None:
    cloud.policy = policy
    found = one_check("log", job_of)
    assert (found[0], message in found[1]) == (verdict, True), found


def test_credentials_for_too_few_scopes(cloud: Cloud, job_of: JobOf) -> None:
    cloud.has_scopes = False
    verdict, message, remedy = one_check("apis", job_of)
    assert verdict == "error"
    assert message == "the credentials' scopes are not sufficient, without cloud-platform"
    assert "--scopes=https://www.googleapis.com/auth/cloud-platform" in remedy


def test_granted_scopes_are_told_before_a_call_is_refused() -> None:
    class Credentials:
        granted_scopes = ("https://www.googleapis.com/auth/devstorage.read_only",)

    with pytest.raises(RsctlError, match=r"devstorage\.read_only, without cloud-platform"):
        scopes_of(Credentials())


def test_the_quota_of_h100_mega(job_of: JobOf) -> None:
    mega = Pool(role="worker", count=2, machine="a3-megagpu-8g", accelerator="h100:8")
    assert needed_quotas(job_of(JOB), plan_of("vertex", mega)) == {
        "custom_model_training_nvidia_h100_mega_gpus": 16
    }
    assert needed_quotas(job_of("limits: {spot: true}\n" + JOB), plan_of("vertex", mega)) == {
        "custom_model_training_preemptible_cpus": 416,
        "custom_model_training_preemptible_nvidia_h100_mega_gpus": 16,
    }
