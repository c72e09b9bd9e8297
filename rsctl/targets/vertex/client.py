"""Vertex AI's job service by REST: it creates a custom job once, and finds it later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Optional

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import NoAnswer
from rsctl.clients.google import Google, body_of, is_transient
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.targets.base import Unanswered
from rsctl.targets.managed.capacity import refused_creation
from rsctl.targets.managed.service import NoCapacity
from rsctl.targets.vertex.errors import is_quota, refusal
from rsctl.targets.vertex.job import VertexJob
from rsctl.targets.vertex.job_address import JobAddress, ProjectRegion
from rsctl.targets.vertex.names import PLACEMENT_LABEL, RUN_LABEL
from rsctl.targets.vertex.pools import roles_of

_PAGES = 20
_TRIES_OF_A_POLL = 3
_UNTIL_LISTED = "3"  # seconds


class VertexService:
    """Custom jobs of the projects that the user's credentials can access. Threads can share it."""

    settled_after = 300.0

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._retries = RetryPolicy.of(endpoints)
        self._sessions: dict[tuple[str, int], Google] = {}

    def create(self, run: str, request: dict[str, Any]) -> str:
        """Create the job, unless this run has one already; its URL. Raises RsctlError.

        The API has no idempotency token. So the job has the run's id as a label, and jobs with it
        are listed before each try: a call whose answer was lost may have been executed.
        """
        parent, identity = ProjectRegion.of_request(request), _Identity.of(request, run)
        google = self._google(parent.project, self._retries.tries)
        problem: RsctlError | None = None
        for attempt in range(1, self._retries.tries + 1):
            if found := _find_again(google, parent, identity, problem):
                return found.url
            try:
                created = _create(google, parent, request["body"], run)
            except NoCapacity:
                if isinstance(problem, Unanswered):  # its own job may have the last machines
                    raise problem from None
                raise
            if isinstance(created, JobAddress):
                return created.url
            problem = problem if isinstance(problem, Unanswered) else created
            if attempt < self._retries.tries:
                self._retries.before_retry(attempt, _UNTIL_LISTED)
        assert problem is not None  # noqa: S101 - there was a try
        raise problem

    def find(self, request: Mapping[str, Any], run: str) -> str | None:
        """The URL of a run's job, or None if there is none. Raises RsctlError."""
        parent = ProjectRegion.of_request(request)
        google = self._google(parent.project, self._retries.tries)
        found = _find(google, parent, _Identity.of(request, run))
        return found and found.url

    def open(self, url: str) -> VertexJob:
        """A job by its URL. Raises RsctlError."""
        address = JobAddress.of_url(url)
        project = address.parent.project
        patient = self._google(project, self._retries.tries)
        return VertexJob(address, self._google(project, _TRIES_OF_A_POLL), patient)

    def _google(self, project: str, tries: int) -> Google:
        key = project, tries
        if key not in self._sessions:
            retries = replace(self._retries, tries=tries)
            self._sessions.setdefault(key, Google(self._endpoints, project, retries))
        return self._sessions[key]


class _Identity(NamedTuple):
    """The labels that identify a job: its run and, after the first, its placement."""

    run: str
    placement: Optional[str]

    @classmethod
    def of(cls, request: Mapping[str, Any], run: str) -> _Identity:
        """The labels of the job of a request."""
        labels = (request.get("body") or {}).get("labels") or {}
        return cls(run, labels.get(PLACEMENT_LABEL))

    def is_of(self, job: Mapping[str, Any]) -> bool:
        """Whether a job has these labels."""
        labels = job.get("labels") or {}
        return (labels.get(RUN_LABEL), labels.get(PLACEMENT_LABEL)) == self


def _find_again(
    google: Google, parent: ProjectRegion, identity: _Identity, problem: RsctlError | None
) -> JobAddress | None:
    """The job; if this search fails after a lost answer, `problem` is raised."""
    try:
        return _find(google, parent, identity)
    except RsctlError:
        if isinstance(problem, Unanswered):
            raise problem from None
        raise


def _create(
    google: Google, parent: ProjectRegion, body: dict[str, Any], run: str
) -> JobAddress | RsctlError:
    """The job, or the error to raise if there is no further try; Unanswered if the job may exist.

    Raises RsctlError if another try would also fail.
    """
    try:
        url = parent.jobs_url(google.endpoints)
        answer = google.request("POST", url, retry=False, ok=None, json=body)
        if answer.status_code == 200:
            return _address(parent, body_of(answer))
    except NoAnswer as problem:
        return Unanswered(run, problem)
    refused = refusal(answer, parent.region, roles_of(body))
    if is_transient(answer) and not is_quota(answer):
        return refused if answer.status_code == 429 else Unanswered(run, refused)
    raise refused_creation(refused)


def _find(google: Google, parent: ProjectRegion, identity: _Identity) -> JobAddress | None:
    """The first job that was created with these labels."""
    listed = list(_listed(google, parent, f'labels.{RUN_LABEL}="{identity.run}"'))
    ours = [job for job in listed if identity.is_of(job)]
    first = min(ours, key=lambda job: str(job.get("createTime", "")), default=None)
    return _address(parent, first) if first else None


def _listed(google: Google, parent: ProjectRegion, wanted: str) -> Iterator[dict[str, Any]]:
    token = ""
    for _ in range(_PAGES):
        query = {"filter": wanted, "pageSize": "100", **({"pageToken": token} if token else {})}
        url = parent.jobs_url(google.endpoints)
        page = body_of(google.request("GET", url, path="targets.vertex", params=query))
        yield from page.get("customJobs") or []
        token = page.get("nextPageToken", "")
        if not token:
            return


def _address(parent: ProjectRegion, job: dict[str, Any]) -> JobAddress:
    address = parent.job(job.get("name"))
    if address is None:
        message = f"Vertex AI returned a job without a usable name: {str(job.get('name'))[:100]!r}"
        raise RsctlError(ExitCode.REFUSED, error("cloud", message, "check `rsctl list` later"))
    return address
