"""Where training jobs are created and found."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from rsctl.clients.aws_calls import Aws, Lost, Refused
from rsctl.clients.pace import Pace
from rsctl.findings import ExitCode, JobState, RsctlError
from rsctl.targets.base import Plan, Unanswered
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.sagemaker.description import event_time, run_of
from rsctl.targets.sagemaker.errors import INVALID, NOT_UNIQUE, explain, taken
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
    """See rsctl.targets.managed.service.JobService. Credentials are those that boto3 finds."""

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace.of_environment()

    def create(self, plan: Plan, request: dict[str, Any]) -> str:
        """Send CreateTrainingJob; see JobService.create.

        A name is unique in its account and region, so of two requests for a run only one becomes
        a job; where an answer was lost, the job of this name tells whether it was arguments out.
        """
        body = request["body"]
        place = Place(str(request["region"]), str(body["TrainingJobName"]))
        machines = {pool.role: pool.machine for pool in pools_of(body)}
        known = partial(explain, reducers=machines.get("reducer"))
        aws = Aws(place.region, self._pace, known)
        is_unknown = False
        for attempt in range(1, self._pace.tries + 1):
            try:
                taken_by = _create(aws, body)
                if taken_by is None or _is_there(aws, place, plan.run):
                    return place.url
                raise taken_by.told(_FIELD)
            except Lost as problem:
                lost = problem
                is_unknown |= problem.sent and not problem.is_busy
            if attempt < self._pace.tries:
                self._pace.before_retry(attempt)
            with suppress(Lost):
                if _is_there(aws, place, plan.run):
                    return place.url
        told = aws.unreachable(lost)
        raise Unanswered(plan.run, told) if is_unknown else told

    def find(self, request: Mapping[str, Any], run: str) -> str | None:
        """See JobService.find. Raises Unreachable, or RsctlError."""
        body, region = request.get("body"), request.get("region")
        if not isinstance(body, dict) or "TrainingJobName" not in body or not region:
            return None
        place = Place(str(region), str(body["TrainingJobName"]))
        aws = Aws(place.region, self._pace, explain)
        try:
            return place.url if _is_there(aws, place, run) else None
        except Lost as problem:
            raise Unreachable(str(problem)) from None

    def jobs(self, region: str, containing: str = "") -> list[Listed]:
        """The jobs of a region whose names contain a text, the newest first. Raises RsctlError."""
        aws = Aws(region, self._pace, explain)
        wanted = {"NameContains": containing} if containing else {}
        found: list[Listed] = []
        more: dict[str, str] = {}
        while True:
            try:
                page = aws.call("sagemaker", "list_training_jobs", MaxResults=100, **wanted, **more)
            except Refused as problem:
                raise problem.told(_FIELD) from None
            for entry in page.get("TrainingJobSummaries", ()):
                url = Place(region, str(entry["TrainingJobName"])).url
                found.append(Listed(url, state_of(entry), event_time(entry.get("CreationTime"))))
            if not page.get("NextToken"):
                return found
            more = {"NextToken": page["NextToken"]}

    def open(self, url: str) -> SageMakerJob:
        """See JobService.open."""
        place = parse(url)
        return SageMakerJob(place, Aws(place.region, self._pace, explain))


def _create(aws: Aws, body: Mapping[str, Any]) -> Refused | None:
    """Send the request; what is said of a name that is taken, or None. Raises Lost, RsctlError."""
    try:
        aws.once("sagemaker", "create_training_job", **body)
    except Refused as problem:
        if problem.code != NOT_UNIQUE:
            raise problem.told(_FIELD) from None
        return problem
    return None


def _is_there(aws: Aws, place: Place, run: str) -> bool:
    """Whether the run's job exists. Raises Lost, and RsctlError if the name is another job's."""
    try:
        found = aws.once("sagemaker", "describe_training_job", TrainingJobName=place.name)
    except Refused as problem:
        if problem.code == INVALID:
            return False
        raise problem.told(_FIELD) from None
    if run_of(aws, found) != run:
        raise RsctlError(ExitCode.REFUSED, taken(place.name))
    return True
