"""Addresses on Vertex AI: the project and region of jobs, and one job in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, RsctlError, error

_PROJECT = r"(?P<project>[a-z0-9][a-z0-9.:-]{0,62})"
_REGION = r"(?P<region>[a-z0-9][a-z0-9-]{0,39})"
_URL = re.compile(rf"vertex://{_PROJECT}/{_REGION}/(?P<id>[0-9]{{1,25}})")
_PATH = re.compile(rf"/v1/projects/{_PROJECT}/locations/{_REGION}/customJobs")
_NAME = re.compile(r"projects/[^/]+/locations/[^/]+/customJobs/([0-9]{1,25})")


class ProjectRegion(NamedTuple):
    """A project, by id or number, and a region."""

    project: str
    region: str

    @classmethod
    def of_request(cls, request: Mapping[str, Any]) -> ProjectRegion:
        """The destination of a plan's request. Raises RsctlError."""
        url = str(request.get("url", ""))
        match = _PATH.fullmatch(urlsplit(url).path)
        if match is None:
            message = f"the request goes to {url!r}, which is not an address of custom jobs"
            remedy = "set targets.vertex.project and targets.vertex.region"
            finding = error("request", message, remedy, "targets.vertex")
            raise RsctlError(ExitCode.USAGE, finding)
        return cls(match["project"], match["region"])

    def jobs_url(self, endpoints: Endpoints) -> str:
        """The address of the region's custom jobs. Raises RsctlError."""
        base = endpoints.google_url("aiplatform", self.region)
        return f"{base}/v1/projects/{quote(self.project, ':')}/locations/{self.region}/customJobs"

    def job(self, name: Any) -> JobAddress | None:
        """The job that a resource name of the API names; None if it names none."""
        match = _NAME.fullmatch(name) if isinstance(name, str) else None
        return match and JobAddress(self, match[1])


class JobAddress(NamedTuple):
    """One job."""

    parent: ProjectRegion
    id: str

    @classmethod
    def of_url(cls, url: str) -> JobAddress:
        """A job by `vertex://PROJECT/REGION/ID`. Raises RsctlError."""
        match = _URL.fullmatch(url)
        if match is None:
            message = f"{url!r} is not the URL of a job on Vertex AI"
            finding = error("run", message, "write it as vertex://PROJECT/REGION/ID")
            raise RsctlError(ExitCode.USAGE, finding)
        return cls(ProjectRegion(match["project"], match["region"]), match["id"])

    @property
    def url(self) -> str:
        """Its URL in rsctl."""
        return f"vertex://{self.parent.project}/{self.parent.region}/{self.id}"

    def resource_url(self, endpoints: Endpoints) -> str:
        """Its address in the API. Raises RsctlError."""
        return f"{self.parent.jobs_url(endpoints)}/{self.id}"

    @property
    def console(self) -> str:
        """Its page in the console."""
        project, region = self.parent
        base = "https://console.cloud.google.com/agent-platform/locations"
        return f"{base}/{region}/training/{self.id}?project={project}"
