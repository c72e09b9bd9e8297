"""SageMaker with the log, the metrics and the storage of one account and region, on loopback."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rsctl.targets.managed.emulator.control import Control, ControlTerms
from rsctl.targets.managed.emulator.http import Refused, Request, Route
from rsctl.targets.managed.emulator.job_threads import JobThreads
from rsctl.targets.managed.emulator.nodes import NodeRunner
from rsctl.targets.managed.emulator.scratch import ScratchFolder
from rsctl.targets.sagemaker.emulator.account import Account
from rsctl.targets.sagemaker.emulator.aws_services import AwsEmulator
from rsctl.targets.sagemaker.emulator.behaviour import Behaviour
from rsctl.targets.sagemaker.emulator.job_record import JobRecord
from rsctl.targets.sagemaker.emulator.job_thread import JobResources, TrainingJobThread
from rsctl.targets.sagemaker.emulator.jobs import Jobs
from rsctl.targets.sagemaker.emulator.log_store import LogStore
from rsctl.targets.sagemaker.emulator.logs import Logs
from rsctl.targets.sagemaker.emulator.measurements import SampleStore
from rsctl.targets.sagemaker.emulator.metrics import Metrics
from rsctl.targets.sagemaker.emulator.s3 import S3
from rsctl.targets.sagemaker.emulator.s3_objects import FolderObjects
from rsctl.targets.sagemaker.emulator.warm_pools import WarmPools

_INVALID = "ValidationException"
_EVERYWHERE = ("sts", "s3", "iam")
"""Services that are called in any region."""


class SageMakerEmulator(AwsEmulator):
    """The training jobs of one account in one region; they really run.

    `more_regions` are served too, each by an emulator of its own behind this one.
    `folder` gets the buckets, as `s3/BUCKET`: each folder there is one. Buckets that a job writes
    to are made. `runner` runs the containers; `behaviour` has waits, limits and faults.
    """

    control_terms = ControlTerms("host", _INVALID, _INVALID, "there is no such job in training")

    def __init__(
        self,
        folder: Path,
        runner: NodeRunner,
        region: str = "us-east-1",
        *,
        more_regions: Iterable[str] = (),
        behaviour: Behaviour | None = None,
        buckets: tuple[str, ...] = ("staging",),
    ) -> None:
        super().__init__(region)
        self.behaviour = behaviour or Behaviour()
        self.objects = FolderObjects(folder / "s3")
        self.log_store = LogStore(self.behaviour)
        self._measurements = SampleStore(self.behaviour)
        self._disks = ScratchFolder()
        self._resources = JobResources(
            runner, self.behaviour, self.objects, self.log_store, self._measurements,
            WarmPools(self.behaviour), self._disks.path, region,
        )  # fmt: skip
        self._threads = JobThreads()
        self._has_expired = False
        self.jobs = Jobs(self, self._resources, self._begin, self._stop_job)
        Logs(self, self.log_store, self.behaviour)
        Metrics(self, self._measurements, self.behaviour)
        Account(self, runner)
        self._elsewhere = {
            name: SageMakerEmulator(folder, runner, name, behaviour=self.behaviour, buckets=())
            for name in more_regions
        }
        self.routes += Control(self).routes() + S3(buckets, self.objects).routes()

    def environment(self) -> dict[str, str]:
        """The variables by which boto3, AWS's command line, its SDKs and rsctl find this emulator.

        SageMaker's SDK does not check the role, since there is no IAM here.
        """
        return {
            **super().environment(),
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "SAGEMAKER_VALIDATE_ROLE": "false",
        }

    def find(self, request: Request) -> tuple[Route | None, Request]:
        """A request to another region is routed to that region's emulator."""
        region, service = self.scope(request) or ("", "")
        elsewhere = self._elsewhere.get(region)
        if elsewhere is not None and service not in _EVERYWHERE:
            return elsewhere.find(request)
        return super().find(request)

    @property
    def is_idle(self) -> bool:
        """Whether no job is running."""
        return self._threads.are_finished and all(e.is_idle for e in self._elsewhere.values())

    def shown_jobs(self) -> list[dict[str, Any]]:
        """See Controlled: {name, status, secondary} each."""
        return [
            {"name": record.name, "status": record.status, "secondary": record["SecondaryStatus"]}
            for record in self.jobs.records.values()
        ] + [job for each in self._elsewhere.values() for job in each.shown_jobs()]

    def preempt(self, job: str, machine: str | None = None) -> None:
        """See Controlled; a machine is named by its host, and the job must be training.

        A job on spot machines is interrupted as a whole.
        """
        if self.jobs.records[job]["SecondaryStatus"] != "Training":
            raise KeyError(job)
        self._threads[job].preempt(machine)

    def expire(self) -> None:
        """See Controlled: all calls but those of control are refused from now on."""
        self._has_expired = True

    def authorize(self, request: Request) -> None:
        """See AwsEmulator; also that the call is for this region, with credentials of now."""
        super().authorize(request)
        region, service = self.scope(request) or ("", "")
        if self._has_expired and not request.path.startswith("/emulator/"):
            message = "The security token included in the request is expired"
            raise Refused(self.error_for(request, 400, "ExpiredTokenException", message))
        known = (self.region, *self._elsewhere)
        if region not in known and service not in _EVERYWHERE:
            message = f"Credential should be scoped to a valid region, not '{region}'."
            raise Refused(self.error_for(request, 403, "InvalidSignatureException", message))

    def stop(self) -> None:
        """End all jobs and remove what only this emulator needed; the buckets stay."""
        for each in self._elsewhere.values():
            each.stop()
        self._threads.close()
        self._disks.close()

    def _begin(self, record: JobRecord, is_warm: bool) -> None:
        thread = TrainingJobThread(record, self._resources, is_warm)
        self._threads.start(record.name, thread)

    def _stop_job(self, record: JobRecord) -> None:
        self._threads[record.name].cancel()
