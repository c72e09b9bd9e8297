"""Checks of a rehearsal of a SageMaker job with processes instead of containers."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.findings import Finding, error
from rsctl.targets.base import Plan


def process_findings(plan: Plan) -> Iterator[Finding]:
    """An error for a job that has no network."""
    if plan.request.get("body", {}).get("EnableNetworkIsolation"):
        message = "processes have this machine's network: they cannot be isolated from it"
        path = "targets.sagemaker.network_isolation"
        yield error("isolation", message, "use --rehearse-with docker", path)
