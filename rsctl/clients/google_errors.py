"""Errors of Google's services as findings.

The body of an error is `{"error": {code, message, status, details}}` (google.rpc.Status with
ErrorInfo and Help); Cloud Storage leaves out status and details.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from rsctl.clients.errors import GOOGLE_LOGIN
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.known_errors import KnownError, find_known_error

_LONGEST = 1000
_KNOWN = (
    KnownError(
        "credentials-expired",
        GOOGLE_LOGIN,
        exit_code=ExitCode.ENVIRONMENT,
        codes=frozenset({"401"}),
    ),
    KnownError(
        "api-disabled",
        "enable it at {page}, and try again after a few minutes",
        codes=frozenset({"SERVICE_DISABLED"}),
    ),
    KnownError(
        "billing",
        "link a billing account to the project",
        codes=frozenset({"403"}),
        pattern=re.compile("billing", re.IGNORECASE),
    ),
    KnownError(
        "perimeter",
        "ask the administrators of VPC Service Controls to let your identity and network into the "
        "project's perimeter, with the identifier of the message; a role does not help",
        path="targets.vertex.project",
        codes=frozenset({"403"}),
        pattern=re.compile("prohibited by organization's policy"),
    ),
    KnownError(
        "denied",
        "ask for the permission that the message names, or log in as another account: "
        "`gcloud auth application-default login`",
        codes=frozenset({"403"}),
    ),
    KnownError(
        "quota",
        "wait a minute, or ask for more quota on the console's page Quotas",
        codes=frozenset({"429"}),
    ),
    KnownError(
        "quota",
        "choose another region: new projects can build only in some, such as us-central1 or "
        "europe-west1 (Cloud Build, locations)",
        path="targets.vertex.region",
        pattern=re.compile("quota restrictions|builds quota"),
    ),
    KnownError("not-found", "correct the name, or create the resource", codes=frozenset({"404"})),
    KnownError("cloud", "check the network and its proxy", codes=frozenset({"3xx"})),
    KnownError("cloud", "try again later", codes=frozenset({"5xx"})),
)
"""By HTTP status, or reason of an ErrorInfo; the first that fits counts. `{page}` is where a
service is switched on."""

_OTHER = KnownError("cloud", None)


class _Body(NamedTuple):
    """The content of an error's body."""

    status: int
    message: str
    reason: str = ""
    activation: str = ""


def google_error(response: Any, path: str | None = None) -> RsctlError:
    """A `requests.Response` that is an error; `path` is the field that led to the call."""
    body = _body(response)
    codes = (body.reason, str(body.status), f"{body.status // 100}xx")
    page = body.activation or "the console's page APIs & Services"
    known = (find_known_error(_KNOWN, body.message, *codes) or _OTHER).fill(page=page)
    is_ours = known.exit_code is ExitCode.ENVIRONMENT  # no field of the job sets credentials
    finding = error(
        known.code,
        f"Google Cloud refuses: {body.message}",
        known.remedy,
        None if is_ours else known.path or path,
    )
    return RsctlError(known.exit_code, finding)


def error_message(response: Any) -> str:
    """The message of a `requests.Response` that is an error, after its status."""
    body = _body(response)
    status = f"HTTP status {body.status}"
    return body.message if body.message == status else f"{status}: {body.message}"


def _body(response: Any) -> _Body:
    status = int(response.status_code)
    try:
        body = response.json()["error"]
        message = str(body["message"])
        details = [d for d in body.get("details", ()) if isinstance(d, dict)]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return _Body(status, f"HTTP status {status}")
    reason = next((str(d["reason"]) for d in details if "reason" in d), "")
    return _Body(status, message[:_LONGEST], reason, _activation(details))


def _activation(details: list[dict[str, Any]]) -> str:
    """The page on which a service is switched on."""
    for detail in details:
        about, links = detail.get("metadata"), detail.get("links")
        if isinstance(about, dict) and "activationUrl" in about:
            return str(about["activationUrl"])
        if isinstance(links, list) and links and isinstance(links[0], dict):
            return str(links[0].get("url", ""))
    return ""
