"""SageMaker with the log, the metrics and the storage of one account and region, on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rsctl.emulators.aws.emulator import AwsEmulator
from rsctl.emulators.aws.s3 import S3
from rsctl.emulators.aws.s3_objects import InFolder
from rsctl.emulators.control import Control, Words
from rsctl.emulators.http import Refused, Request
from rsctl.emulators.lives import Lives
from rsctl.emulators.nodes import Runner
from rsctl.emulators.sagemaker.account import Account
from rsctl.emulators.sagemaker.behaviour import Behaviour
from rsctl.emulators.sagemaker.jobs import Jobs
from rsctl.emulators.sagemaker.life import Life
from rsctl.emulators.sagemaker.logbook import Logbook
from rsctl.emulators.sagemaker.logs import Logs
from rsctl.emulators.sagemaker.measurements import Measurements
from rsctl.emulators.sagemaker.metrics import Metrics
from rsctl.emulators.sagemaker.pools import Pools
from rsctl.emulators.sagemaker.record import Record
from rsctl.emulators.sagemaker.site import Site
from rsctl.emulators.scratch import ScratchFolder

_INVALID = "ValidationException"
_EVERYWHERE = ("sts", "s3", "iam")
"""Services that are called in whatever region."""


class SageMakerEmulator(AwsEmulator):
    """The training jobs of one account in one region, which really run.

    `folder` gets the buckets, as `s3/BUCKET`: each folder there is one. Buckets that a job writes
    to are made. `runner` runs the containers, `behaviour` says how well it all goes.
    """

    words = Words("host", _INVALID, _INVALID, "no such job is training")

    def __init__(
        self,
        folder: Path,
        runner: Runner,
        region: str = "us-east-1",
        *,
        behaviour: Behaviour | None = None,
        buckets: tuple[str, ...] = ("staging",),
    ) -> None:
        super().__init__(region)
        self.behaviour = behaviour or Behaviour()
        self.objects = InFolder(folder / "s3")
        self.logbook = Logbook(self.behaviour)
        self._pools = Pools(self.behaviour)
        self._measurements = Measurements(self.behaviour)
        self._disks = ScratchFolder()
        self._site = Site(
            runner, self.behaviour, self.objects, self.logbook, self._measurements, self._pools,
            self._disks.path,
        )  # fmt: skip
        self._lives = Lives()
        self._has_expired = False
        self.jobs = Jobs(
            self, self.behaviour, runner, self.objects, self._pools, self._begin, self._stop_job
        )
        Logs(self, self.logbook, self.behaviour)
        Metrics(self, self._measurements, self.behaviour)
        Account(self, runner)
        self.routes += Control(self).routes() + S3(buckets, self.objects).routes()

    def environment(self) -> dict[str, str]:
        """The variables by which boto3, AWS's command line, its SDKs and rsctl find this emulator.

        SageMaker's SDK is told not to look at the role, since there is no IAM here.
        """
        return {
            **super().environment(),
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "SAGEMAKER_VALIDATE_ROLE": "false",
        }

    @property
    def is_idle(self) -> bool:
        """Whether no job goes on."""
        return self._lives.are_over

    def shown_jobs(self) -> list[dict[str, Any]]:
        """See Controlled: {name, status, secondary} each."""
        return [
            {"name": record.name, "status": record.status, "secondary": record["SecondaryStatus"]}
            for record in self.jobs.records.values()
        ]

    def preempt(self, job: str, machine: str | None = None) -> None:
        """See Controlled; a machine is named by its host, and the job must be training.

        A job on spot machines is interrupted as a whole.
        """
        if self.jobs.records[job]["SecondaryStatus"] != "Training":
            raise KeyError(job)
        self._lives[job].preempt(machine)

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
        if region != self.region and service not in _EVERYWHERE:
            message = f"Credential should be scoped to a valid region, not '{region}'."
            raise Refused(self.error_for(request, 403, "InvalidSignatureException", message))

    def stop(self) -> None:
        """End all jobs and remove what only this emulator needed; the buckets stay."""
        self._lives.close()
        self._disks.close()

    def _begin(self, record: Record, is_warm: bool) -> None:
        life = Life(record, self._site, is_warm)
        self._lives.begin(record.name, life)

    def _stop_job(self, record: Record) -> None:
        self._lives[record.name].cancel()
