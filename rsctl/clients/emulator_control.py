"""Calls to the control API of a rehearsed run's emulator: faults of the cloud, on request.

`rsctl.targets.managed.emulator.control` describes the API. It takes the emulator's credentials.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, RsctlError, error

_SECONDS = 30.0


class EmulatorControl:
    """The control of the emulator that `endpoints` lead to; `region` is where its jobs run."""

    def __init__(self, endpoints: Endpoints, region: str) -> None:
        if not endpoints.is_emulator:
            raise ValueError("only emulators have a control API")
        self._endpoints, self._region = endpoints, region

    def preempt(self, job: str) -> None:
        """Take a machine of a job away. Raises RsctlError if the job has none."""
        self._call("POST", f"/emulator/jobs/{job}:preempt", {})

    def change(self, behaviour: Mapping[str, Any]) -> None:
        """Set fields of the cloud's behaviour, such as `{"stockouts": 1}`. Raises RsctlError."""
        self._call("POST", "/emulator/behaviour", dict(behaviour))

    def behaviour(self) -> dict[str, Any]:
        """The cloud's behaviour. Raises RsctlError."""
        found: dict[str, Any] = self._call("GET", "/emulator/state", None)["behaviour"]
        return found

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        content = b"" if body is None else msgspec.json.encode(body)
        is_aws = any(self._endpoints.aws_key or ())
        answer = (self._by_aws if is_aws else self._by_google)(method, path, content)
        if answer.status_code != 200:
            message = f"the emulator refuses {method} {path}: {answer.text[:200]}"
            raise RsctlError(ExitCode.REFUSED, error("emulator", message))
        found: dict[str, Any] = answer.json()
        return found

    def _by_google(self, method: str, path: str, content: bytes) -> Any:
        from rsctl.clients.google import Google

        url = self._endpoints.google_url("aiplatform") + path
        headers = {"Content-Type": "application/json"}
        google = Google(self._endpoints)
        return google.request(method, url, ok=None, data=content, headers=headers)

    def _by_aws(self, method: str, path: str, content: bytes) -> Any:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        from rsctl.clients.sessions import http_session

        url = f"{self._endpoints.aws_url('sagemaker')}{path}"
        headers = {"Content-Type": "application/json"}
        signed = AWSRequest(method, url, headers, content)
        key = Credentials(*(self._endpoints.aws_key or ("", "")))
        SigV4Auth(key, "sagemaker", self._region).add_auth(signed)
        session = http_session(use_proxies=False)
        return session.request(
            method, url, data=content, headers=dict(signed.headers), timeout=_SECONDS
        )
