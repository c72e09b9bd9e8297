"""Vertex AI's JobService, as far as custom jobs go: create, get, list, cancel, delete."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any

from rsctl.runs.stream.events import now
from rsctl.targets.managed.emulator.behaviour import is_named
from rsctl.targets.managed.emulator.http import Refused, Reply, Request, Route, route
from rsctl.targets.managed.emulator.rate_limiter import RequestLimit
from rsctl.targets.managed.sdk_calls import snake
from rsctl.targets.vertex.api_model import MESSAGES
from rsctl.targets.vertex.emulator.behaviour import Behaviour
from rsctl.targets.vertex.emulator.google_services import GoogleEmulator
from rsctl.targets.vertex.emulator.job_filter import JobFilter
from rsctl.targets.vertex.emulator.job_record import JobRecord
from rsctl.targets.vertex.emulator.machines import demand
from rsctl.targets.vertex.emulator.rules import default_disk, problems
from rsctl.targets.vertex.proto_json import MalformedJson, read_job, write_job

_SERVICE = "aiplatform.googleapis.com"
_DEFAULT_PAGE = 100
_MOST_PAGE = 1000


_MASKABLE = {spelling for name in MESSAGES["CustomJob"] for spelling in (name, snake(name))}


class Jobs:
    """The custom jobs of one project in its regions.

    `start` is called with the record of each new job, `cancel` with a job to cancel, and `forget`
    with a job that no longer exists.
    """

    def __init__(
        self,
        emulator: GoogleEmulator,
        regions: tuple[str, ...],
        behaviour: Behaviour,
        start: Callable[[JobRecord], None],
        cancel: Callable[[JobRecord], None],
        forget: Callable[[JobRecord], None],
    ) -> None:
        self._emulator = emulator
        self._regions = regions
        self._behaviour = behaviour
        self._start = start
        self._cancel = cancel
        self._forget = forget
        self._submissions = RequestLimit()
        self._calls = RequestLimit()
        self.records: dict[str, JobRecord] = {}

    def routes(self) -> list[Route]:
        """The routes of the service."""
        path = "/v1/projects/{project}/locations/{location}/customJobs"
        name = "aiplatform.customJobs."
        return [
            route(name + "create", "POST", path, self._create),
            route(name + "list", "GET", path, self._list),
            route(name + "get", "GET", path + "/{job}", self._get),
            route(name + "delete", "DELETE", path + "/{job}", self._delete),
            route(name + "cancel", "POST", path + "/{job}:cancel", self._cancel_one),
        ]

    def admit(self, record: JobRecord) -> bool:
        """Give a job its share of the quotas; False while that much is not left."""
        with self._emulator.lock:
            if not self._exceeded(record):
                record.is_admitted = True
            return record.is_admitted

    def _exceeded(self, new: JobRecord) -> list[str]:
        """The metrics whose limits in its region a job would exceed."""
        wanted = new.demand
        if self._has_no_quota(new):
            return list(wanted)
        used = wanted.copy()
        for record in self.records.values():
            if record.is_admitted and not record.has_ended and record.region == new.region:
                used.update(record.demand)
        limits = self._behaviour.quotas
        return [metric for metric in wanted if used[metric] > limits.get(metric, used[metric])]

    def _has_no_quota(self, new: JobRecord) -> bool:
        """Whether its quota is zero. Users have seen such jobs refused, never queued."""
        return is_named(self._behaviour.no_quota_in, new.region, new.machines)

    def _create(self, request: Request) -> Reply:
        self._check_call(request, is_submission=True)
        job = self._checked(request)
        job_id = str(10**18 + secrets.randbelow(8 * 10**18))
        created, region = now(), request.parts["location"]
        parent = f"projects/{self._emulator.number}/locations/{region}/customJobs"
        shown = {
            "name": f"{parent}/{job_id}",
            **job,
            "state": "JOB_STATE_QUEUED",
            "createTime": created,
            "updateTime": created,
        }
        record = JobRecord(job_id, region, shown, demand(job["jobSpec"]))
        over = self._exceeded(record)
        if over and (self._behaviour.over_quota == "refuse" or self._has_no_quota(record)):
            metrics = ", ".join(f"{_SERVICE}/{metric}" for metric in over)
            message = f"The following quota metrics exceed quota limits: {metrics}"
            raise self._emulator.refuse(429, "RESOURCE_EXHAUSTED", message)
        self.records[job_id] = record
        answer = self._answer(request, record.copy())
        self._start(record)
        return answer

    def _checked(self, request: Request) -> dict[str, Any]:
        """The job that is asked for, with the defaults that the service fills in."""
        try:
            job = read_job(request.json())
            found = "; ".join(problems(job, self._behaviour.persistent_resources))
        except MalformedJson as problem:
            found = str(problem)
        except (ValueError, RecursionError):
            found = "Invalid JSON payload received. Unexpected token."
        if found:
            raise self._emulator.invalid(found)
        for pool in filter(None, job["jobSpec"]["workerPoolSpecs"]):
            pool.setdefault("replicaCount", "1")
            disk = default_disk(pool.get("machineSpec", {}).get("machineType", ""))
            pool["diskSpec"] = {
                "bootDiskType": disk, "bootDiskSizeGb": 100, **pool.get("diskSpec", {}),
            }  # fmt: skip
        return job

    def _get(self, request: Request) -> Reply:
        self._check_call(request)
        return self._answer(request, self._record(request).copy())

    def _list(self, request: Request) -> Reply:
        self._check_call(request)
        query = request.query
        try:
            wanted = JobFilter(query.get("filter", ""))
            size = _page_size(query.get("pageSize", ""))
            start = _page_start(query.get("pageToken", ""))
        except ValueError as problem:
            raise self._emulator.invalid(str(problem)) from None
        region = request.parts["location"]
        own = [record for record in self.records.values() if record.region == region]
        newest_first = [record.copy() for record in reversed(own)]
        found = [job for job in newest_first if wanted.takes(job)]
        page = [self._shown(request, job) for job in found[start : start + size]]
        answer: dict[str, Any] = {"customJobs": page} if page else {}
        if start + size < len(found):
            answer["nextPageToken"] = str(start + size)
        return Reply.of(answer)

    def _cancel_one(self, request: Request) -> Reply:
        self._check_call(request)
        record = self._record(request)
        if record.has_ended:
            message = f'The CustomJob "{record.shown["name"]}" is in state {record.state}'
            message += " and cannot be canceled."  # as of a training pipeline; not seen of a job
            raise self._emulator.refuse(400, "FAILED_PRECONDITION", message)
        self._cancel(record)
        return Reply.of({})

    def _delete(self, request: Request) -> Reply:
        self._check_call(request, is_submission=True)
        record = self._record(request)
        if not record.has_ended:
            message = f"The job {record.shown['name']} is in state {record.state}: cancel it first."
            raise self._emulator.refuse(400, "FAILED_PRECONDITION", message)
        del self.records[record.job_id]
        self._forget(record)
        parent = f"projects/{self._emulator.number}/locations/{record.region}/operations"
        empty = {"@type": "type.googleapis.com/google.protobuf.Empty"}
        return Reply.of({"name": f"{parent}/{record.job_id}", "done": True, "response": empty})

    def _check_call(self, request: Request, is_submission: bool = False) -> None:
        """Raise Refused for a call beyond the rate limits, or for another project or region."""
        limits = self._behaviour
        if not self._calls.allows(limits.calls, limits.pace):
            raise self._too_many("Resource management requests")
        if is_submission and not self._submissions.allows(limits.submissions, limits.pace):
            raise self._too_many("Job and long-running operation submissions")
        if request.parts["project"] not in (self._emulator.project, self._emulator.number):
            message = (
                "Permission 'aiplatform.customJobs' denied on resource "
                f"'//{_SERVICE}/projects/{request.parts['project']}' (or it may not exist)."
            )
            raise self._emulator.refuse(403, "PERMISSION_DENIED", message)
        if request.parts["location"] not in self._regions:
            served = ", ".join(self._regions)
            message = f"{request.parts['location']} is not served here, but {served}."
            raise self._emulator.invalid(message)

    def _too_many(self, what: str) -> Refused:
        return self._emulator.exceed(_SERVICE, what, what)

    def _record(self, request: Request) -> JobRecord:
        found = self.records.get(request.parts["job"])
        if found is None or found.region != request.parts["location"]:
            name = request.path.removeprefix("/v1/").removesuffix(":cancel")
            message = f"The CustomJob does not exist: {name}"
            raise self._emulator.refuse(404, "NOT_FOUND", message)
        return found

    def _answer(self, request: Request, job: dict[str, Any]) -> Reply:
        return Reply.of(self._shown(request, job))

    def _shown(self, request: Request, job: dict[str, Any]) -> dict[str, Any]:
        as_numbers = "enum-encoding=int" in request.query.get("$alt", "")
        mask = [name for name in request.query.get("readMask", "").split(",") if name]
        if unknown := [name for name in mask if name != "*" and name not in _MASKABLE]:
            message = f'Invalid field mask: "{unknown[0]}" is not a field of CustomJob'
            if unknown[0].partition(".")[0] in _MASKABLE:
                message = f'the field mask "{unknown[0]}" is not emulated by rsctl\'s emulator'
                raise self._emulator.refuse(501, "UNIMPLEMENTED", message)
            raise self._emulator.invalid(message)
        if mask and "*" not in mask:
            job = {
                name: value for name, value in job.items() if name in mask or snake(name) in mask
            }
        return write_job(job, as_numbers)


def _page_size(text: str) -> int:
    """How many jobs a page has at most; 0 is the default, as for all numbers that are not set."""
    if not re.fullmatch(r"-?[0-9]{1,10}", text or "0"):
        raise ValueError(f"Invalid value at 'page_size' (TYPE_INT32), \"{text[:100]}\"")
    size = int(text or 0)
    if not 0 <= size <= _MOST_PAGE:
        raise ValueError(f"page_size must be from 0 to {_MOST_PAGE}")
    return size or _DEFAULT_PAGE


def _page_start(token: str) -> int:
    if not re.fullmatch(r"[0-9]{0,10}", token):
        raise ValueError("page_token is not one that was given")
    return int(token or 0)
