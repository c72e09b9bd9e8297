"""Calls to the slurmrestd of a training cluster of Vertex AI, each as one POST to Google.

Source: docs.cloud.google.com, "Manage clusters with Slurm" of training clusters. The method is
`callSlurmRestApi` of a modelDevelopmentCluster; it needs the permission
aiplatform.modelDevelopmentClusters.run, and runs as the caller's own Linux account.
"""

from __future__ import annotations

from typing import Any, Optional

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import NoAnswer
from rsctl.clients.google import Google, body_of
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.slurm.rest import Answer


class VertexRequests:
    """See Requests."""

    who = "the Slurm API of Vertex AI"
    remedy_of_login = (
        "check that your account has the permission aiplatform.modelDevelopmentClusters.run"
    )

    def __init__(self, name: str, endpoints: Endpoints) -> None:
        self._project, self._region, self._cluster = name.split("/")
        self._google = Google(endpoints, self._project)

    def call(self, method: str, path: str, body: Optional[dict[str, Any]] = None) -> Answer:
        """See Requests."""
        wrapped: dict[str, Any] = {"method": f"HTTP_METHOD_{method}", "path": path}
        if body is not None:
            wrapped["body"] = body
        base = self._google.endpoints.google_url("aiplatform", self._region)
        url = (
            f"{base}/v1beta1/projects/{self._project}/locations/{self._region}"
            f"/modelDevelopmentClusters/{self._cluster}:callSlurmRestApi"
        )
        try:
            # A POST that submits must not be repeated: whether it made a job is looked up.
            answer = self._google.request(
                "POST", url, retry=method != "POST", path="targets.slurm.connection", json=wrapped
            )
            content = body_of(answer)
        except NoAnswer as problem:
            raise Unreachable(f"{self.who} gives no answer: {problem.reason}") from None
        inner = content.get("structuredBody")
        return Answer(int(content.get("status") or 200), inner if isinstance(inner, dict) else {})
