"""Settings of a Google Cloud project that let a job start but impair it: regions, roles, scopes."""

from __future__ import annotations

from typing import Any, Optional
from urllib.parse import quote

from rsctl.clients.google import Google, body_of
from rsctl.findings import ExitCode, RsctlError, error

CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
_WRITES_LOGS = ("roles/logging.logWriter", "roles/logging.admin", "roles/editor", "roles/owner")
_MULTI_REGIONS = {"US": "us-", "EU": "europe-", "ASIA": "asia-"}
_DUAL_REGIONS: dict[str, tuple[str, ...]] = {
    "NAM4": ("us-central1", "us-east1"),
    "EUR4": ("europe-north1", "europe-west4"),
    "EUR5": ("europe-west1", "europe-west2"),
    "EUR7": ("europe-west2", "europe-west3"),
    "EUR8": ("europe-west3", "europe-west6"),
    "ASIA1": ("asia-northeast1", "asia-northeast2"),
}
"""Cloud Storage's predefined dual-regions (its documentation, "Bucket locations")."""


def scopes_of(credentials: Any) -> str:
    """The scopes of the credentials' tokens. Raises RsctlError if they are not sufficient.

    For most kinds of credentials, the scopes are unknown until a call is refused.
    """
    granted = getattr(credentials, "granted_scopes", None)
    if granted and CLOUD_PLATFORM not in granted:
        raise missing_scope(f"the credentials' scopes are {', '.join(sorted(granted))}")
    return f"{CLOUD_PLATFORM}" if granted else "unknown; no call was refused for them so far"


def missing_scope(message: str) -> RsctlError:
    """The error for credentials whose tokens are for too few scopes."""
    remedy = f"log in with `gcloud auth application-default login --scopes={CLOUD_PLATFORM}`; a "
    remedy += "virtual machine or a node pool gets the scope cloud-platform when it is created"
    return RsctlError(
        ExitCode.REFUSED, error("denied", f"{message}, without cloud-platform", remedy)
    )


def log_writer(google: Google, project: str, account: str) -> str:
    """Whether a service account may write the job's log. Raises RsctlError if it may not."""
    base = google.endpoints.google_url("cloudresourcemanager")
    answer = google.request("POST", f"{base}/v1/projects/{project}:getIamPolicy", ok=(200, 403))
    if answer.status_code == 403:
        return "unknown: you do not have resourcemanager.projects.getIamPolicy"
    bindings = [each for each in body_of(answer).get("bindings", []) if isinstance(each, dict)]
    member = f"serviceAccount:{account}"
    roles = {str(b.get("role")) for b in bindings if member in b.get("members", [])}
    if found := next((role for role in _WRITES_LOGS if role in roles), None):
        return f"{account} has {found}"
    shared = {
        str(each).partition(":")[0]
        for binding in bindings
        if binding.get("role") in _WRITES_LOGS
        for each in binding.get("members", [])
    }
    if shared - {"serviceAccount", "user"} or any(not r.startswith("roles/") for r in roles):
        return f"unknown: {account} may have it through a group or a custom role"
    message = (
        f"{account} has no permission to write logs in {project}: the job would run with an empty "
        "log"
    )
    remedy = (
        f"`gcloud projects add-iam-policy-binding {project} --member={member} "
        "--role=roles/logging.logWriter`, unless a folder or the organization grants it"
    )
    path = "targets.vertex.service_account"
    raise RsctlError(ExitCode.REFUSED, error("denied", message, remedy, path))


def bucket_region(google: Google, bucket: str, region: str) -> str:
    """Whether a bucket is where the job is. Raises RsctlError if it is elsewhere."""
    base = google.endpoints.google_url("storage")
    fields = "fields=location,locationType,customPlacementConfig"
    url = f"{base}/storage/v1/b/{quote(bucket, safe='')}?{fields}"
    answer = google.request("GET", url, ok=(200, 403, 404))
    found = body_of(answer) if answer.status_code == 200 else {}
    location = str(found.get("location") or "").upper()
    if not location:
        return "unknown: you do not have storage.buckets.get"
    if _contains(location, found.get("customPlacementConfig"), region):
        return f"in {location}, like the job"
    message = f"the bucket is in {location}, but the job is in {region}: its data crosses regions, "
    message += "which is slower and billed, and Vertex AI refuses some buckets in other regions"
    remedy = f"use a bucket in {region}: `gcloud storage buckets create gs://NAME "
    remedy += f"--location={region}`; or set targets.vertex.region"
    raise RsctlError(ExitCode.REFUSED, error("region", message, remedy, "targets.vertex.region"))


def _contains(location: str, placement: Optional[Any], region: str) -> bool:
    places = placement.get("dataLocations", []) if isinstance(placement, dict) else []
    regions = tuple(str(each).lower() for each in places) or _DUAL_REGIONS.get(location, ())
    if location in _MULTI_REGIONS and not regions:
        return region.startswith(_MULTI_REGIONS[location])
    return region in (location.lower(), *regions)
