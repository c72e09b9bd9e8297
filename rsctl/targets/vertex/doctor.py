"""The requirements of target vertex in Google Cloud: an identity, APIs, permissions, quotas,
buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.google import Google, body_of
from rsctl.clients.retries import RetryPolicy
from rsctl.estimate.catalog import load
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.inputs import inputs_of
from rsctl.job.job import Job
from rsctl.job.units import Accelerator, Location
from rsctl.targets.base import Plan
from rsctl.targets.doctor import Check, Verdict, run_check
from rsctl.targets.vertex.catalog import quotas_of
from rsctl.targets.vertex.doctor_project import bucket_region, log_writer, missing_scope, scopes_of
from rsctl.targets.vertex.options import vertex_options
from rsctl.targets.vertex.scheduling import strategy_of

_SERVICES = ("aiplatform.googleapis.com", "logging.googleapis.com", "storage.googleapis.com")
_PERMISSIONS = {
    "aiplatform.customJobs.create": "roles/aiplatform.user",
    "aiplatform.customJobs.get": "roles/aiplatform.user",
    "aiplatform.customJobs.list": "roles/aiplatform.user",
    "aiplatform.customJobs.cancel": "roles/aiplatform.user",
    "logging.logEntries.list": "roles/logging.viewer",
    "monitoring.timeSeries.list": "roles/monitoring.viewer",
}
"""The permissions that a submission needs, and a role that has them."""

_ACT_AS = "iam.serviceAccounts.actAs"
_WRITE, _READ = "storage.objects.create", "storage.objects.get"


def google_checks(job: Job, plan: Plan) -> Iterator[Check]:
    """The checks of one job, as far as credentials reach."""
    options = vertex_options(job)
    project, region = str(options.project), str(options.first_region)
    google = _google(project)
    who = run_check("credentials", google.identity)
    yield who
    if who.verdict != "ok":
        return
    yield run_check("scopes", lambda: scopes_of(google.credentials))
    yield run_check("apis", lambda: _apis(google, project))
    yield run_check("permissions", lambda: _permissions(google, project), "warning")
    if options.service_account:
        account = options.service_account
        yield run_check("service account", lambda: _act_as(google, project, account), "warning")
        yield run_check("log", lambda: log_writer(google, project, account), "warning")
    yield from _quotas(google, project, region, job, plan)
    for bucket, needs in _buckets(job).items():
        access = run_check(f"gs://{bucket}", lambda b=bucket, n=needs: _bucket(google, b, n))  # type: ignore[misc]
        yield access
        if access.verdict == "ok":
            yield run_check(
                f"gs://{bucket} region",
                lambda b=bucket: bucket_region(google, b, region),  # type: ignore[misc]
                "warning",
            )


def _google(project: str | None = None) -> Google:
    endpoints = Endpoints.of_environment()
    return Google(endpoints, project, RetryPolicy.of(endpoints, tries=2))


def _apis(google: Google, project: str) -> str:
    names = "&".join(f"names=projects/{project}/services/{name}" for name in _SERVICES)
    base = google.endpoints.google_url("serviceusage")
    url = f"{base}/v1/projects/{project}/services:batchGet?{names}"
    try:
        answer = google.request("GET", url, path="targets.vertex.project")
    except RsctlError as problem:
        if "authentication scopes" in problem.summary:
            raise missing_scope("the credentials' scopes are not sufficient") from None
        raise
    services = body_of(answer).get("services", [])
    enabled = {s["name"].rpartition("/")[2] for s in services if s.get("state") == "ENABLED"}
    missing = [name for name in _SERVICES if name not in enabled]
    if missing:
        remedy = f"`gcloud services enable {' '.join(missing)} --project {project}`"
        raise _lacking("api-disabled", f"not enabled: {', '.join(missing)}", remedy)
    return f"{len(_SERVICES)} enabled in {project}"


def _permissions(google: Google, project: str) -> str:
    base = google.endpoints.google_url("cloudresourcemanager")
    url = f"{base}/v1/projects/{project}:testIamPermissions"
    granted = _granted(google, url, "targets.vertex.project", list(_PERMISSIONS))
    missing = [name for name in _PERMISSIONS if name not in granted]
    if missing:
        roles = ", ".join(sorted({_PERMISSIONS[name] for name in missing}))
        raise _lacking("denied", f"missing: {', '.join(missing)}", f"ask for {roles}")
    return f"all {len(_PERMISSIONS)} that a submission needs"


def _act_as(google: Google, project: str, account: str) -> str:
    base = google.endpoints.google_url("iam")
    url = f"{base}/v1/projects/{project}/serviceAccounts/{account}:testIamPermissions"
    path = "targets.vertex.service_account"
    if _ACT_AS not in _granted(google, url, path, [_ACT_AS]):
        message = f"you cannot run jobs as {account}: {_ACT_AS} is missing"
        remedy = f"ask for roles/iam.serviceAccountUser on {account}"
        raise RsctlError(ExitCode.REFUSED, error("denied", message, remedy, path))
    return f"you can run jobs as {account}"


def _granted(google: Google, url: str, path: str, wanted: list[str]) -> set[str]:
    answer = google.request("POST", url, path=path, json={"permissions": wanted})
    return set(body_of(answer).get("permissions", []))


def _quotas(google: Google, project: str, region: str, job: Job, plan: Plan) -> Iterator[Check]:
    for quota, needed in needed_quotas(job, plan).items():
        yield run_check(
            f"quota {quota}",
            lambda q=quota, n=needed: _quota(google, project, region, q, n),  # type: ignore[misc]
        )


def needed_quotas(job: Job, plan: Plan) -> dict[str, int]:
    """The usage of each quota by the plan's pools: vCPUs or GPUs, by the metric's name."""
    catalog = load("vertex")
    is_preemptible = strategy_of(job) in ("SPOT", "FLEX_START")
    needed: Counter[str] = Counter()
    for pool in plan.pools:
        machine = catalog.machines.get(pool.machine or "")
        if machine is not None:
            wanted = Accelerator.parse(pool.accelerator) if pool.accelerator else None
            needed += quotas_of(machine, wanted, pool.count, is_preemptible)
    return needed


def _quota(google: Google, project: str, region: str, quota: str, needed: int) -> str:
    metric = quote(f"aiplatform.googleapis.com/{quota}", safe="")
    url = (
        f"{google.endpoints.google_url('serviceusage')}/v1beta1/projects/{project}/services/"
        f"aiplatform.googleapis.com/consumerQuotaMetrics/{metric}"
    )
    answer = google.request("GET", url, ok=(200, 404), path="targets.vertex.region")
    limit = _limit(body_of(answer), region) if answer.status_code == 200 else None
    if limit is None:
        return f"{needed} needed; the quota in {region} is unknown"
    if 0 <= limit < needed:
        message = f"{needed} needed in {region}, but the quota is {limit}"
        remedy = "ask for more on the console's page Quotas (Vertex AI API), or use another region"
        raise RsctlError(ExitCode.REFUSED, error("quota", message, remedy, "targets.vertex.region"))
    return f"{needed} of {'any number' if limit < 0 else limit} in {region}"


def _limit(metric: dict[str, Any], region: str) -> int | None:
    """A region's limit: its own bucket, otherwise the bucket for all; numbers arrive as text."""
    found: dict[str, int] = {}
    for limit in metric.get("consumerQuotaLimits", []):
        for bucket in limit.get("quotaBuckets", []):
            name = bucket.get("dimensions", {}).get("region", "")
            if "effectiveLimit" in bucket:
                found[name] = int(bucket["effectiveLimit"])
    return found.get(region, found.get(""))


def _buckets(job: Job) -> dict[str, set[str]]:
    """The buckets that a job reads and writes, with the permissions on their objects."""
    needs: dict[str, set[str]] = {}

    def add(location: Location | str | None, permission: str) -> None:
        if location and str(location).startswith("gs://"):
            bucket = str(location).removeprefix("gs://").partition("/")[0]
            needs.setdefault(bucket, set()).add(permission)

    for job_input in inputs_of(job, "vertex"):
        add(job_input.location, _READ)
    for written in (job.outputs, job.checkpoints, vertex_options(job).staging):
        add(written, _WRITE)
    return needs


def _bucket(google: Google, bucket: str, needs: set[str]) -> str:
    wanted = "&".join(f"permissions={name}" for name in sorted(needs))
    base = google.endpoints.google_url("storage")
    url = f"{base}/storage/v1/b/{quote(bucket, safe='')}/iam/testPermissions?{wanted}"
    answer = google.request("GET", url, ok=(200, 404))
    if answer.status_code == 404:
        raise _lacking(
            "bucket", "the bucket does not exist", f"`gcloud storage buckets create gs://{bucket}`"
        )
    missing = sorted(needs - set(body_of(answer).get("permissions", [])))
    if missing:
        remedy = f"ask for roles/storage.objectUser on gs://{bucket}"
        raise _lacking("denied", f"missing: {', '.join(missing)}", remedy)
    return "it can be " + " and ".join(
        verb for name, verb in ((_READ, "read"), (_WRITE, "written")) if name in needs
    )


def _lacking(code: str, message: str, remedy: str) -> RsctlError:
    return RsctlError(ExitCode.REFUSED, error(code, message, remedy))


def signed_in(severity: Verdict) -> Check:
    """Whether there are credentials at all, without a job."""
    return run_check("google cloud", _google().identity, severity)
