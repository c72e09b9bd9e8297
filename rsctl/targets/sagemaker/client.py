"""Creates and finds training jobs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any

from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import AwsError, FindKnown
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import NoAnswer
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import ExitCode, RsctlError
from rsctl.targets.base import Unanswered
from rsctl.targets.managed.capacity import refused_creation
from rsctl.targets.managed.service import NoCapacity, Unreachable
from rsctl.targets.sagemaker.description import run_of
from rsctl.targets.sagemaker.errors import INVALID, NOT_UNIQUE, find_known, name_taken
from rsctl.targets.sagemaker.job import SageMakerJob
from rsctl.targets.sagemaker.job_address import JobAddress, parse_url
from rsctl.targets.sagemaker.pools import own_groups_of

_FIELD = "targets.sagemaker"


class SageMakerService:
    """See rsctl.targets.managed.service.JobService. Threads can share it."""

    settled_after = 0.0

    def __init__(self, endpoints: Endpoints, retries: RetryPolicy | None = None) -> None:
        self._endpoints = endpoints
        self._retries = retries or RetryPolicy.of(endpoints)
        self._lock = Lock()
        self._regions: dict[str, Aws] = {}

    def create(self, run: str, request: dict[str, Any]) -> str:
        """Send CreateTrainingJob; see JobService.create.

        A name is unique in its account and region, so of two requests for a run only one becomes
        a job; after a lost answer, the job with this name shows whether the request was executed.
        """
        body = request["body"]
        address = JobAddress(str(request["region"]), str(body["TrainingJobName"]))
        blocks = {
            group["InstanceType"]: group["InstanceGroupName"] for group in own_groups_of(body)
        }
        aws = self._new(address.region, partial(find_known, blocks=blocks))
        is_unknown = False
        for attempt in range(1, self._retries.tries + 1):
            try:
                taken = _create(aws, body)
                if taken is None or _is_there(aws, address, run):
                    return address.url
                raise taken
            except NoAnswer as problem:
                unanswered = problem
                is_unknown |= problem.sent and not problem.is_busy
            except AwsError as problem:
                refused = refused_creation(problem)
                if is_unknown and isinstance(refused, NoCapacity):  # for its own job, perhaps
                    raise Unanswered(run, problem) from None
                raise refused from None
            if attempt < self._retries.tries:
                self._retries.before_retry(attempt)
            with suppress(NoAnswer):
                if _is_there(aws, address, run):
                    return address.url
        given_up = aws.given_up(unanswered)
        raise Unanswered(run, given_up) if is_unknown else given_up

    def find(self, request: Mapping[str, Any], run: str) -> str | None:
        """See JobService.find. Raises Unreachable, or RsctlError."""
        body, region = request.get("body"), request.get("region")
        if not isinstance(body, dict) or "TrainingJobName" not in body or not region:
            return None
        address = JobAddress(str(region), str(body["TrainingJobName"]))
        aws = self._aws(address.region)
        try:
            return address.url if _is_there(aws, address, run) else None
        except NoAnswer as problem:
            raise Unreachable(problem.summary) from None

    def open(self, url: str) -> SageMakerJob:
        """See JobService.open."""
        address = parse_url(url)
        return SageMakerJob(address, self._aws(address.region))

    def _aws(self, region: str) -> Aws:
        with self._lock:
            if region not in self._regions:
                self._regions[region] = self._new(region, find_known)
            return self._regions[region]

    def _new(self, region: str, known: FindKnown) -> Aws:
        return Aws(self._endpoints, region, _FIELD, known, self._retries)


def _create(aws: Aws, body: Mapping[str, Any]) -> AwsError | None:
    """Send the request; returns the error if its name is taken. Raises NoAnswer, RsctlError."""
    try:
        created = "TrainingJobArn"
        aws.request("sagemaker", "create_training_job", body, retry=False, member=created)
    except AwsError as problem:
        if problem.code != NOT_UNIQUE:
            raise
        return problem
    return None


def _is_there(aws: Aws, address: JobAddress, run: str) -> bool:
    """Whether the run's job exists. Raises NoAnswer, and RsctlError if another has its name."""
    try:
        named = {"TrainingJobName": address.name}
        found = aws.request(
            *("sagemaker", "describe_training_job", named), retry=False, member="TrainingJobStatus"
        )
    except AwsError as problem:
        if problem.code == INVALID:
            return False
        raise
    if run_of(aws, found) != run:
        raise RsctlError(ExitCode.REFUSED, name_taken(address.name))
    return True
