"""Shells that Vertex AI offers on the nodes of a job: pages, `webAccessUris` of the CustomJob."""

from __future__ import annotations

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.records import RunRecord
from rsctl.targets.base import Shell

_KEY = "targets.vertex.web_access"


def shell_of(run: RunRecord, replica: str) -> Shell:
    """The page with a shell on a node. Raises RsctlError.

    Vertex AI names the pages while the job runs, and only for a job that asks for them.
    """
    pages = next((fact.value for fact in run.facts if fact.name == "web_access"), None) or {}
    if replica in pages:
        return Shell(page=pages[replica])
    body = run.plan.get("request", {}).get("body", {})
    if not pages and not body.get("jobSpec", {}).get("enableWebAccess"):
        message = f"{run.run} does not allow shells in its containers"
        remedy = f"set {_KEY}: true, and submit the job again"
        raise RsctlError(ExitCode.USAGE, error("shell", message, remedy))
    message = f"Vertex AI has not named the page with a shell on {replica} yet"
    remedy = f"try again when the job runs: rsctl status {run.run}"
    raise RsctlError(ExitCode.USAGE, error("shell", message, remedy))
