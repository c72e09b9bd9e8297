"""One training job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import AwsError
from rsctl.clients.errors import NoAnswer
from rsctl.findings import ExitCode, Finding, RsctlError
from rsctl.runs.stream.events import LogEvent, MetricEvent, parse_time
from rsctl.targets.base import Pool
from rsctl.targets.managed.service import Fact, JobDescription, JobStatus, Measured, Unreachable
from rsctl.targets.sagemaker import transport_status as efa_status
from rsctl.targets.sagemaker.description import describe_job, run_of
from rsctl.targets.sagemaker.errors import INVALID, missing
from rsctl.targets.sagemaker.hosts import Hosts
from rsctl.targets.sagemaker.job_address import JobAddress
from rsctl.targets.sagemaker.logs import TrainingLog
from rsctl.targets.sagemaker.metrics import CloudWatchMetrics
from rsctl.targets.sagemaker.status import status_of
from rsctl.targets.sagemaker.status_transitions import state_of


class SageMakerJob:
    """See rsctl.targets.managed.service.CloudJob.

    Repeated requests are tried once per call; `describe` and `cancel`, for which a user waits, are
    tried until there is an answer.
    """

    def __init__(self, address: JobAddress, aws: Aws) -> None:
        self.url = address.url
        self._address = address
        self._aws = aws
        self._hosts: Hosts | None = None
        self._measurements = CloudWatchMetrics(aws, address.name)
        self._created: str | None = None
        self._has_ended = False

    def status(self) -> JobStatus:
        """See CloudJob.status. One request."""
        try:
            answer = self._answer(retry=False)
        except NoAnswer as problem:
            raise Unreachable(problem.summary) from None
        status = status_of(answer, self._address)
        self._has_ended = status.state.is_final
        return status

    def describe(self) -> JobDescription:
        """See CloudJob.describe."""
        answer = self._answer()
        try:
            run = run_of(self._aws, answer)
        except NoAnswer as problem:
            raise Unreachable(problem.summary) from None
        return describe_job(answer, self._address.region, run)

    def log(self, cursor: Mapping[str, Any], pools: list[Pool], created: str) -> TrainingLog:
        """See CloudJob.log."""
        self._hosts = Hosts(self._address.name, pools, cursor.get("hosts"))
        self._created = created
        return TrainingLog(self._aws, self._address.name, self._hosts, cursor, created)

    def measure(self, after: str | None, pools: list[Pool]) -> list[MetricEvent]:
        """See CloudJob.measure.

        For a job with reducers, only machines whose streams have reported their replica.
        """
        start = after or self._created
        if start is None:
            return []
        hosts = self._hosts or Hosts(self._address.name, pools)
        begin = parse_time(start)
        return self._measurements.read(hosts.by_host(), pools, begin, self._has_ended)

    def notice(self, line: LogEvent) -> Finding | None:
        """See CloudJob.notice."""
        return efa_status.notice(line.text)

    def facts(
        self, measured: Measured, plan: Mapping[str, Any], noticed: list[Finding]
    ) -> list[Fact]:
        """See CloudJob.facts."""
        guessed = self._hosts.guessed() if self._hosts else {}
        names = ", ".join(f"{host} as {replica}" for host, replica in guessed.items())
        text = f"{names}: the log does not show which replica it belongs to"
        facts = [Fact("guessed_replicas", text, guessed)] if guessed else []
        return [*efa_status.facts(plan, noticed), *facts]

    def cancel(self) -> None:
        """See CloudJob.cancel. StopTrainingJob sends SIGTERM, and SIGKILL 120 seconds later."""
        try:
            self._aws.request("sagemaker", "stop_training_job", self._name())
        except AwsError as problem:
            # The answer is the same for a job that has ended and one that does not exist.
            if problem.code != INVALID or not self._is_stopping():
                raise self._refused(problem) from None

    def _is_stopping(self) -> bool:
        answer = self._answer()
        return state_of(answer).is_final or answer.get("TrainingJobStatus") == "Stopping"

    def _answer(self, retry: bool = True) -> dict[str, Any]:
        """DescribeTrainingJob's answer."""
        try:
            return self._aws.request(
                *("sagemaker", "describe_training_job", self._name(), retry, "TrainingJobStatus")
            )
        except AwsError as problem:
            raise self._refused(problem) from None

    def _name(self) -> dict[str, str]:
        return {"TrainingJobName": self._address.name}

    def _refused(self, problem: AwsError) -> RsctlError:
        """For a job that does not exist, the service answers that the request is invalid."""
        if problem.code in (INVALID, "ResourceNotFound"):
            finding = missing(self._address.name, self._address.region)
            return RsctlError(ExitCode.REFUSED, finding)
        return problem
