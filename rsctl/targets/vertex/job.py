"""One custom job: its status, description, log and measurements, and its cancellation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from rsctl.clients.errors import NoAnswer
from rsctl.clients.google import Google, body_of
from rsctl.clients.google_errors import google_error
from rsctl.findings import Finding
from rsctl.job.secret_names import is_secret_name
from rsctl.runs.stream.events import LogEvent, MetricEvent, now
from rsctl.targets.base import Pool
from rsctl.targets.managed.service import Fact, JobDescription, JobStatus, Measured, Unreachable
from rsctl.targets.vertex.job_address import JobAddress
from rsctl.targets.vertex.logs import VertexLog
from rsctl.targets.vertex.metrics import PERIOD, measure, span_of
from rsctl.targets.vertex.names import RUN_LABEL
from rsctl.targets.vertex.pools import has_googles_reducers, pools_of, roles_of
from rsctl.targets.vertex.server_clock import ServerClock
from rsctl.targets.vertex.status import status_of
from rsctl.targets.vertex.timestamps import event_time, seconds_of
from rsctl.targets.vertex.transport_status import notice, reduction_server_facts

_REQUESTED = ("displayName", "jobSpec", "labels", "encryptionSpec")
_MEASURED_AFTER = 120.0
"""Seconds after which the measurements of all nodes are expected to be available."""


class VertexJob:
    """A job by its address; see CloudJob. `google` tries few times, `patient` many times."""

    def __init__(self, address: JobAddress, google: Google, patient: Google) -> None:
        self.url = address.url
        self._address = address
        self._google, self._patient = google, patient
        self._time_scale = google.retries.time_scale
        self._clock = ServerClock()
        self._job: dict[str, Any] = {}

    def status(self) -> JobStatus:
        """The present status."""
        return status_of(self._get(), self._address, self._clock.now(), self._time_scale)

    def describe(self) -> JobDescription:
        """The description of the job, as far as its resource shows it."""
        job = self._get()
        body = {key: _without_secrets(job[key]) for key in _REQUESTED if key in job}
        labels = job.get("labels") or {}
        return JobDescription(
            name=str(job.get("displayName") or self._address.id),
            created=event_time(job.get("createTime")) or now(),
            pools=pools_of(job),
            run=labels.get(RUN_LABEL),
            request={
                "method": "POST",
                "url": self._address.parent.jobs_url(self._google.endpoints),
                "body": body,
            },
        )

    def log(self, cursor: Mapping[str, Any], pools: list[Pool], created: str) -> VertexLog:
        """Its log, from a cursor on."""
        roles = roles_of(self._job or self._get())
        return VertexLog(self._google, self._address, cursor, created, roles)

    def measure(self, after: Optional[str], pools: list[Pool]) -> list[MetricEvent]:
        """Cloud Monitoring's measurements after a time."""
        job = self._job or self._get()
        factor, ended = self._time_scale, seconds_of(job.get("endTime"))
        end = self._clock.now() - _MEASURED_AFTER * factor
        if ended is not None:  # there may be no other time to ask
            end = min(self._clock.now(), ended + PERIOD * factor)
        start = seconds_of(after) or seconds_of(job.get("createTime")) or 0.0
        span = span_of(start, end, factor)
        return measure(self._measurements, self._address, span, roles_of(job)) if span else []

    def notice(self, line: LogEvent) -> Finding | None:
        """NCCL's plugins that a line shows."""
        return notice(line, has_googles_reducers(self._job))

    def facts(
        self, measured: Measured, plan: Mapping[str, Any], noticed: list[Finding]
    ) -> list[Fact]:
        """Whether Reduction Server is in use."""
        return reduction_server_facts(measured, plan, noticed)

    def cancel(self) -> None:
        """Ask it to end; does not change a job that has ended."""
        url = f"{self._address.resource_url(self._patient.endpoints)}:cancel"
        answer = self._patient.request("POST", url, ok=(200, 400), json={})
        if answer.status_code == 400 and not self.status().state.is_final:
            raise google_error(answer)

    def _get(self) -> dict[str, Any]:
        try:
            url = self._address.resource_url(self._google.endpoints)
            answer = self._google.request("GET", url, ok=(200, 404))
            self._clock.correct(answer.headers.get("Date"))
            job = body_of(answer)  # the page of a proxy does not say that the job is gone
        except NoAnswer as problem:
            raise Unreachable(f"Vertex AI gives no answer: {problem.reason}") from None
        if answer.status_code == 404:
            raise google_error(answer)
        self._job = job
        return job

    def _measurements(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        url = self._google.endpoints.google_url("monitoring") + path
        try:
            answer = self._google.request("GET", url, ok=(200, 404), params=query)
            # 404: this project has had no such measurement yet.
            return body_of(answer) if answer.status_code == 200 else {}
        except NoAnswer as problem:
            raise Unreachable(f"Cloud Monitoring gives no answer: {problem.reason}") from None


def _without_secrets(value: Any) -> Any:
    """A part of a job, its variables without values: it is unknown which are secrets."""
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"name", "value"} and not _is_public(str(value["name"])):
        return {**value, "value": None}
    return {key: _without_secrets(item) for key, item in value.items()}


def _is_public(name: str) -> bool:
    return name.startswith(("RSCTL_", "NCCL_")) and not is_secret_name(name)
