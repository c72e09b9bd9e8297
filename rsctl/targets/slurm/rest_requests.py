"""Calls to slurmrestd by HTTP, with the token of SLURM_JWT."""

from __future__ import annotations

import os
from typing import Any, Optional
from urllib.parse import urlsplit

from rsctl.clients.sessions import connection_problem, http_session
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.slurm.rest import Answer

_TIMEOUT = (10.0, 60.0)  # to connect, and between two bytes, in seconds


class RestRequests:
    """See Requests. A token goes by TLS, or stays on this machine: http:// is for a tunnel."""

    remedy_of_login = (
        "get a new token on a login node: scontrol token lifespan=3600; then export SLURM_JWT here"
    )

    def __init__(self, base: str) -> None:
        self._base = base
        self.who = f"slurmrestd at {urlsplit(base).netloc}"
        self._session: Any = None

    def call(self, method: str, path: str, body: Optional[dict[str, Any]] = None) -> Answer:
        """See Requests. The variable is read each time: a user may have renewed the token."""
        import requests

        if self._session is None:
            self._session = http_session()
        try:
            answer = self._session.request(
                method,
                f"{self._base}{path}",
                json=body,
                headers=_headers(),
                timeout=_TIMEOUT,
                allow_redirects=False,
            )
        except requests.RequestException as problem:
            raise Unreachable(f"{self.who}: {connection_problem(problem)}") from None
        try:
            content = answer.json()
        except (ValueError, RecursionError):
            content = {}
        return Answer(answer.status_code, content if isinstance(content, dict) else {})


def _headers() -> dict[str, str]:
    token, user = os.environ.get("SLURM_JWT", ""), os.environ.get("SLURM_USER_NAME", "")
    if not token:
        message = "slurmrestd needs a token, and SLURM_JWT is not set"
        remedy = RestRequests.remedy_of_login
        finding = error("token", message, remedy, "targets.slurm.connection")
        raise RsctlError(ExitCode.ENVIRONMENT, finding)
    return {"X-SLURM-USER-TOKEN": token, **({"X-SLURM-USER-NAME": user} if user else {})}
