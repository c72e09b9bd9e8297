"""Vertex AI's method callSlurmRestApi, in front of a real slurmrestd."""

from __future__ import annotations

from typing import Any

import requests

from rsctl.targets.managed.emulator.http import Reply, Request, route
from rsctl.targets.vertex.emulator.google_services import GoogleEmulator


class VertexSlurm(GoogleEmulator):
    """Passes each call on. `lost` calls are carried out, and their answers are not given."""

    def __init__(self, rest: str, token: str) -> None:
        super().__init__("project")
        self._rest, self._token = rest, token
        self.lost = 0
        self.calls: list[str] = []
        path = (
            "/v1beta1/projects/{project}/locations/{location}"
            "/modelDevelopmentClusters/{cluster}:callSlurmRestApi"
        )
        self.routes += [route("slurm", "POST", path, self._call)]

    def _call(self, request: Request) -> Reply:
        wanted: dict[str, Any] = request.json()
        method = wanted["method"].removeprefix("HTTP_METHOD_")
        self.calls.append(f"{method} {wanted['path']}")
        headers = {"X-SLURM-USER-TOKEN": self._token}
        url = f"{self._rest}{wanted['path']}"
        body = wanted.get("body")
        answer = requests.request(method, url, json=body, headers=headers, timeout=60)
        if self.lost:
            self.lost -= 1
            return Reply.of({"error": {"code": 503, "message": "lost"}}, 503)
        return Reply.of({"status": answer.status_code, "structuredBody": answer.json()})
