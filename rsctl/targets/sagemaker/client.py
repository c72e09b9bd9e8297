"""Where training jobs are created and found."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import AwsError, FindKnown
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import NoAnswer
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import ExitCode, JobState, RsctlError
from rsctl.targets.base import Plan, Unanswered
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.sagemaker.description import event_time, run_of
from rsctl.targets.sagemaker.errors import INVALID, NOT_UNIQUE, find_known, name_taken
from rsctl.targets.sagemaker.job import SageMakerJob
from rsctl.targets.sagemaker.job_address import Place, parse
from rsctl.targets.sagemaker.pools import pools_of
from rsctl.targets.sagemaker.status_transitions import state_of

_FIELD = "targets.sagemaker"


class Listed(NamedTuple):
    """One job of a list. `created` is a time as events have it."""

    url: str
    state: JobState
    created: str


class SageMakerService:
    """See rsctl.targets.managed.service.JobService. Threads can share it."""

    def __init__(self, endpoints: Endpoints, retries: RetryPolicy | None = None) -> None:
        self._endpoints = endpoints
        self._retries = retries or RetryPolicy.of(endpoints)
        self._lock = Lock()
        self._regions: dict[str, Aws] = {}

    def create(self, plan: Plan, request: dict[str, Any]) -> str:
        """Send CreateTrainingJob; see JobService.create.

        A name is unique in its account and region, so of two requests for a run only one becomes
        a job; where an answer was lost, the job of this name tells whether it was arguments out.
        """
        body = request["body"]
        place = Place(str(request["region"]), str(body["TrainingJobName"]))
        machines = {pool.role: pool.machine for pool in pools_of(body)}
        aws = self._new(place.region, partial(find_known, reducers=machines.get("reducer")))
        is_unknown = False
        for attempt in range(1, self._retries.tries + 1):
            try:
                taken = _create(aws, body)
                if taken is None or _is_there(aws, place, plan.run):
                    return place.url
                raise taken
            except NoAnswer as problem:
                unanswered = problem
                is_unknown |= problem.sent and not problem.is_busy
            if attempt < self._retries.tries:
                self._retries.before_retry(attempt)
            with suppress(NoAnswer):
                if _is_there(aws, place, plan.run):
                    return place.url
        given_up = aws.given_up(unanswered)
        raise Unanswered(plan.run, given_up) if is_unknown else given_up

    def find(self, request: Mapping[str, Any], run: str) -> str | None:
        """See JobService.find. Raises Unreachable, or RsctlError."""
        body, region = request.get("body"), request.get("region")
        if not isinstance(body, dict) or "TrainingJobName" not in body or not region:
            return None
        place = Place(str(region), str(body["TrainingJobName"]))
        aws = self._aws(place.region)
        try:
            return place.url if _is_there(aws, place, run) else None
        except NoAnswer as problem:
            raise Unreachable(str(problem)) from None

    def jobs(self, region: str, containing: str = "") -> list[Listed]:
        """The jobs of a region whose names contain a text, the newest first. Raises RsctlError."""
        aws = self._aws(region)
        wanted: dict[str, Any] = {"MaxResults": 100}
        if containing:
            wanted["NameContains"] = containing
        found: list[Listed] = []
        while True:
            page = aws.request("sagemaker", "list_training_jobs", wanted)
            for entry in page.get("TrainingJobSummaries", ()):
                url = Place(region, str(entry["TrainingJobName"])).url
                found.append(Listed(url, state_of(entry), event_time(entry.get("CreationTime"))))
            if not page.get("NextToken"):
                return found
            wanted["NextToken"] = page["NextToken"]

    def open(self, url: str) -> SageMakerJob:
        """See JobService.open."""
        place = parse(url)
        return SageMakerJob(place, self._aws(place.region))

    def _aws(self, region: str) -> Aws:
        with self._lock:
            if region not in self._regions:
                self._regions[region] = self._new(region, find_known)
            return self._regions[region]

    def _new(self, region: str, known: FindKnown) -> Aws:
        return Aws(self._endpoints, region, _FIELD, known, self._retries)


def _create(aws: Aws, body: Mapping[str, Any]) -> AwsError | None:
    """Send the request; the error that its name is taken, or None. Raises NoAnswer, RsctlError."""
    try:
        aws.request("sagemaker", "create_training_job", body, retry=False)
    except AwsError as problem:
        if problem.code != NOT_UNIQUE:
            raise
        return problem
    return None


def _is_there(aws: Aws, place: Place, run: str) -> bool:
    """Whether the run's job exists. Raises NoAnswer, and RsctlError if another has its name."""
    try:
        named = {"TrainingJobName": place.name}
        found = aws.request("sagemaker", "describe_training_job", named, retry=False)
    except AwsError as problem:
        if problem.code == INVALID:
            return False
        raise
    if run_of(aws, found) != run:
        raise RsctlError(ExitCode.REFUSED, name_taken(place.name))
    return True
