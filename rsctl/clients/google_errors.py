"""What Google's services refuse, as findings.

The body of an error is `{"error": {code, message, status, details}}` (google.rpc.Status with
ErrorInfo and Help); Cloud Storage leaves out status and details.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rsctl.clients.logins import GOOGLE_LOGIN
from rsctl.findings import ExitCode, Finding, RsctlError, error

_LONGEST = 1000


class _Said(NamedTuple):
    """What an error's body says."""

    status: int
    message: str
    reason: str = ""
    activation: str = ""


def refused(answer: Any, path: str | None = None) -> RsctlError:
    """A `requests.Response` that is an error; `path` is the field that led to the call."""
    said = _said(answer)
    message = f"Google Cloud refuses: {said.message}"
    if said.status == 401:
        finding = error("credentials-expired", message, GOOGLE_LOGIN)
        return RsctlError(ExitCode.ENVIRONMENT, finding)
    return RsctlError(ExitCode.REFUSED, _finding(said, message, path))


def said_by(answer: Any) -> str:
    """The message of a `requests.Response` that is an error, after its status."""
    said = _said(answer)
    status = f"HTTP status {said.status}"
    return said.message if said.message == status else f"{status}: {said.message}"


def _finding(said: _Said, message: str, path: str | None) -> Finding:
    if said.reason == "SERVICE_DISABLED":
        where = said.activation or "the console's page APIs & Services"
        return error("api-disabled", message, f"switch it on at {where}, and try again after a few "
                     "minutes", path)  # fmt: skip
    if said.status == 403 and "billing" in said.message.lower():
        return error("billing", message, "link a billing account to the project", path)
    if said.status == 403:
        remedy = "ask for the permission that the message names, or log in as another account: "
        return error("denied", message, remedy + "`gcloud auth application-default login`", path)
    if said.status == 429:
        remedy = "wait a minute, or ask for more quota on the console's page Quotas"
        return error("quota", message, remedy, path)
    if "quota restrictions" in said.message or "builds quota" in said.message:
        remedy = (
            "choose another region: new projects may build only in some, such as us-central1 or "
            "europe-west1 (Cloud Build, locations)"
        )
        return error("quota", message, remedy, "targets.vertex.region")
    if said.status == 404:
        return error("not-found", message, "correct the name, or create what it names", path)
    if said.status >= 500:
        return error("cloud", message, "try again later", path)
    return error("cloud", message, None, path)


def _said(answer: Any) -> _Said:
    status = int(answer.status_code)
    try:
        body = answer.json()["error"]
        message = str(body["message"])
        details = [d for d in body.get("details", ()) if isinstance(d, dict)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return _Said(status, f"HTTP status {status}")
    reason = next((str(d["reason"]) for d in details if "reason" in d), "")
    return _Said(status, message[:_LONGEST], reason, _activation(details))


def _activation(details: list[dict[str, Any]]) -> str:
    """The page on which a service is switched on."""
    for detail in details:
        about, links = detail.get("metadata"), detail.get("links")
        if isinstance(about, dict) and "activationUrl" in about:
            return str(about["activationUrl"])
        if isinstance(links, list) and links and isinstance(links[0], dict):
            return str(links[0].get("url", ""))
    return ""
