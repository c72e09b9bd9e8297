"""Errors of Vertex AI for a job that it refuses or that failed, with their remedies.

The patterns match messages in its documentation or in users' reports; any other message is shown
unchanged.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from rsctl.clients.google_errors import error_message, google_error
from rsctl.estimate.catalog import load
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.known_errors import NO_IMAGE, OTHER_REGION, KnownError, find_known_error
from rsctl.targets.managed.known_errors import STOCK_OUT
from rsctl.targets.vertex.pools import Roles
from rsctl.targets.vertex.spec_keys import FieldError, field_errors

_METRIC = re.compile(r"aiplatform\.googleapis\.com/(\w+)")
_QUOTA = re.compile(r"quota metrics exceed quota limits", re.IGNORECASE)
_LONGEST = 1000
_WAIT = ", or let the job wait for GPUs with targets.vertex.capacity: flex-start"
_SENT = (
    "check the request with `rsctl plan`, and correct the key that sets the field, or "
    "targets.vertex.overlay"
)


_NO_MACHINE = (
    "use a machine type that Vertex AI has for training: `rsctl catalog --target vertex` lists "
    "them. Compute Engine has more machine types, so another region does not help"
)
_OTHER_MACHINE = "use a machine type and accelerator that the region has, or another region"


def _known(pattern: str, code: str, remedy: str, path: str | None = None) -> KnownError:
    return KnownError(code, remedy, path, pattern=re.compile(pattern, re.IGNORECASE))


_KNOWN = (
    _known(
        r"resources are insufficient in region|stockout|does not have enough resources available",
        STOCK_OUT,
        "this is not your quota: Google has too few of these machines free in the region. Use "
        "another region or accelerator, or submit again later",
        "workers",
    ),
    _known(
        r"\bact as (the )?service[_ ]account|iam\.serviceAccounts\.actAs",
        "denied",
        "ask for roles/iam.serviceAccountUser on that service account, or use another",
        "targets.vertex.service_account",
    ),
    _known(
        "unescaped apostrophe",
        "env",
        "remove the apostrophe, pass the text as an argument, or put it in a file of the image",
        "run.env",
    ),
    _known(
        OTHER_REGION,
        "bucket-region",
        "use a bucket in the job's own region (`gcloud storage buckets create gs://NAME "
        "--location=REGION`), or set targets.vertex.region to the bucket's region; a "
        "multi-region bucket is in none of them",
        "outputs",
    ),
    _known(
        r"aiplatform\.tensorboard\w*\.\w+'? denied",
        "denied",
        "let targets.vertex.service_account use TensorBoard: roles/aiplatform.user on the project "
        "of the instance; check that the instance exists, and is in the job's region",
        "targets.vertex.tensorboard",
    ),
    _known(
        r"insufficient authentication scopes|ACCESS_TOKEN_SCOPE_INSUFFICIENT",
        "scopes",
        "log in with the scope https://www.googleapis.com/auth/cloud-platform: `gcloud auth "
        "application-default login`; a virtual machine needs that access scope too",
    ),
    _known(
        r"gcp-sa-aiplatform|vertex ai (custom code )?service agent",
        "service-agent",
        "give Vertex AI's service agent the role that the message names: "
        "roles/artifactregistry.reader on the image's repository, roles/storage.objectAdmin on "
        "the bucket",
        "targets.vertex",
    ),
    _known(
        rf"{NO_IMAGE}|\bimage\b.*\b(not found|does not exist|could not be found|not be pulled)|"
        r"(not found|does not exist|(failed|unable) to pull|cannot pull|imagepullbackoff)\b"
        r".*\bimage\b",
        "image",
        "check that the image was pushed and that Vertex AI's service agent has permission to "
        "read its repository; this agent pulls the image, regardless of the job's service account",
        "image",
    ),
    _known(
        r"constraints/[\w.]+",
        "org-policy",
        "use a region, network, image or key that the organization's policy allows, or ask its "
        "administrators for an exception",
    ),
    _known(
        r"machine type .*not (supported|available) (in|for) "
        r".*(region|location|zone|[a-z]+-[a-z]+\d)",
        "machine",
        _OTHER_MACHINE,
        "workers.machine",
    ),
    _known(
        r"accelerators? .*not supported for machine type",
        "machine",
        "use a machine type that has this accelerator, or the accelerator of the machine type",
        "workers.machine",
    ),
    _known(
        r"machine type\W+[\w-]+\W+(is )?(not supported|invalid|unsupported)"
        r"|(unsupported|invalid) machine type",
        "machine",
        _NO_MACHINE,
        "workers.machine",
    ),
    _known(
        r"machine type .*not (supported|available)|accelerators? .*not (supported|available)",
        "machine",
        _OTHER_MACHINE,
        "workers.machine",
    ),
    _known(
        r"unsupported region|unsupported location|invalid location|location .*(not supported|"
        r"not found|is not valid)",
        "region",
        "set a region that has custom training, such as us-central1",
        "targets.vertex.region",
    ),
    _known(
        r"internal error (?:occurred|encountered)",
        "cloud",
        "this was an internal error of Vertex AI; submit the job again",
    ),
)


def refusal(answer: Any, region: str, roles: Roles) -> RsctlError:
    """Why a job was not created; `answer` is the `requests.Response`, `roles` its pools'."""
    findings = explained(error_message(answer), region, roles)
    if findings and answer.status_code != 401:
        return RsctlError(ExitCode.REFUSED, *findings)
    kind = str(answer.headers.get("Content-Type", ""))
    if answer.status_code == 404 and not kind.startswith("application/json"):
        message = f"Vertex AI is not available at {answer.url}"
        remedy = "set a region that has it, such as us-central1"
        finding = error("region", message, remedy, "targets.vertex.region")
        return RsctlError(ExitCode.REFUSED, finding)
    problem = google_error(answer, "targets.vertex")
    if answer.status_code == 400:
        findings = [replace(each, remedy=each.remedy or _SENT) for each in problem.findings]
        return RsctlError(problem.exit_code, *findings)
    return problem


def is_quota(answer: Any) -> bool:
    """Whether a 429 is about the machines that a project may have, not about too many calls."""
    return _QUOTA.search(error_message(answer)) is not None


def explained(message: str, region: str, roles: Roles, strategy: Any = None) -> list[Finding]:
    """The known errors in a message: one finding for each field it names.

    `roles` are the roles of the job's worker pools, `strategy` is the strategy of its scheduling.
    """
    fields = [_of_field(field_error) for field_error in field_errors(message, roles)]
    if fields:
        return fields
    shown = f"Vertex AI: {message[:_LONGEST]}"
    if _QUOTA.search(message):
        return [error("quota", shown, _quota_remedy(_METRIC.findall(message), region), None)]
    known = find_known_error(_KNOWN, message)
    if known is None:
        return []
    known = _of_machine(known, message)
    can_wait = known.code == STOCK_OUT and strategy != "FLEX_START"
    remedy = (known.remedy or "") + (_WAIT if can_wait else "")
    return [error(known.code, shown, remedy, known.path)]


def _of_field(found: FieldError) -> Finding:
    shown = f"Vertex AI: {found.field}: {found.text}"
    known = find_known_error(_KNOWN, found.text)
    if known is None:
        return error("request", shown, _SENT, found.path)
    known = _of_machine(known, found.text)
    return error(known.code, shown, known.remedy, found.path)


def _of_machine(known: KnownError, text: str) -> KnownError:
    """A machine type for training that does not exist in this region."""
    if known.remedy != _NO_MACHINE:
        return known
    machines = load("vertex").machines
    is_known = any(name in machines for name in re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)+", text))
    return replace(known, remedy=_OTHER_MACHINE) if is_known else known


def _quota_remedy(metrics: list[str], region: str) -> str:
    names = ", ".join(dict.fromkeys(metrics)) or "custom_model_training_*"
    parts = [
        f"ask for more of {names} in {region} on the console's page Quotas; for some, new "
        "projects have a quota of zero, and Compute Engine's quotas are separate"
    ]
    if any("preemptible" in metric for metric in metrics):
        parts.append("spot and flex-start machines count toward the preemptible quotas")
    if any(metric.endswith("_cpus") for metric in metrics):
        parts.append("reducers also need CPUs: use fewer of them, or another region")
    return "; ".join(parts)
