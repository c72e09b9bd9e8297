"""Where the services of Google and AWS answer, and with whose credentials they are called.

Base URLs of the real clouds can be replaced by the vendors' own variables. Google's are gcloud's:
CLOUDSDK_API_ENDPOINT_OVERRIDES_ and the service in capitals (AIPLATFORM, ARTIFACTREGISTRY,
LOGGING, MONITORING, CLOUDBUILD, STORAGE, …); Cloud Storage's can be also the client libraries' own
STORAGE_EMULATOR_HOST. AWS's are AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_ with the service.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from rsctl.clients.private import is_private, not_private, without_secrets
from rsctl.findings import ExitCode, RsctlError, error

TIME_SCALE = "RSCTL_CLOUD_PACE"
"""Environment variable: a factor on every wait of a client, such as 0.01 against an emulator."""

_PREFIXES = ("GOOGLE_", "CLOUDSDK_", "AWS_", "STORAGE_EMULATOR_HOST")
"""Prefixes of the variables that configure clouds and credentials for the vendors' libraries."""


@dataclass(frozen=True)
class Endpoints:
    """One cloud account as clients see it; equal ones can share clients. The region is not part.

    `variables` are the vendors' own, by which it is found. Of an emulator they are all there is:
    its clients read no configuration file, ask no metadata server and use no proxy. Of the real
    clouds the vendors' libraries find credentials and regions by themselves. `time_scale` is a
    factor on every wait.
    """

    variables: frozenset[tuple[str, str]] = field(default=frozenset(), repr=False)
    is_emulator: bool = False
    time_scale: float = 1.0

    @classmethod
    def of_environment(cls, environ: Optional[Mapping[str, str]] = None) -> Endpoints:
        """The clouds that this process's environment names."""
        environ = os.environ if environ is None else environ
        return cls(_chosen(environ), time_scale=_time_scale(environ))

    @classmethod
    def of_emulator(cls, variables: Mapping[str, str]) -> Endpoints:
        """An emulator, by the variables that it gives its clients."""
        return cls(_chosen(variables), is_emulator=True, time_scale=_time_scale(variables))

    def google_url(self, service: str, region: str | None = None) -> str:
        """Where a service of Google answers, in one region if it is regional, without a slash at
        the end. Raises RsctlError.
        """
        names = [f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{service.upper()}"]
        if service == "storage":
            names.append("STORAGE_EMULATOR_HOST")
        for name in names:
            if url := self._get(name):
                url = url if "://" in url else f"http://{url}"
                if not is_private(url):
                    raise not_private(f"{name} is {without_secrets(url)!r}", url)
                return url.rstrip("/")
        if self.is_emulator:
            raise _not_emulated(service)
        host = f"{region}-{service}" if region else service
        return f"https://{host}.googleapis.com"

    @property
    def google_key_file(self) -> str | None:
        """The key of a service account; None if google-auth finds credentials by itself."""
        if not self.is_emulator:
            return None
        return self._get("GOOGLE_APPLICATION_CREDENTIALS") or os.devnull

    def aws_url(self, service: str) -> str | None:
        """Where a service of AWS answers; None if boto3 finds it. Raises RsctlError."""
        if not self.is_emulator:
            return None
        url = self._get("AWS_ENDPOINT_URL")
        if url is None:
            raise _not_emulated(service)
        return url

    @property
    def aws_key(self) -> tuple[str, str] | None:
        """An access key's id and secret; None if boto3 finds credentials by itself."""
        if not self.is_emulator:
            return None
        return self._get("AWS_ACCESS_KEY_ID") or "", self._get("AWS_SECRET_ACCESS_KEY") or ""

    def _get(self, name: str) -> str | None:
        return next((value for key, value in self.variables if key == name and value), None)


def _chosen(variables: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((n, value) for n, value in variables.items() if n.startswith(_PREFIXES))


def _time_scale(variables: Mapping[str, str]) -> float:
    try:
        return max(float(variables.get(TIME_SCALE, "1")), 0.0)
    except ValueError:
        return 1.0


def _not_emulated(service: str) -> RsctlError:
    message = f"the run was a rehearsal, and its emulator has not stored an address of {service}"
    return RsctlError(ExitCode.ENVIRONMENT, error("endpoint", message, "submit the job again"))
