"""Vertex AI with the log, the metrics and the storage of one project, on loopback."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rsctl.targets.managed.emulator.control import Control, ControlTerms
from rsctl.targets.managed.emulator.job_threads import JobThreads
from rsctl.targets.managed.emulator.nodes import NodeRunner
from rsctl.targets.managed.emulator.scratch import ScratchFolder
from rsctl.targets.vertex.emulator.behaviour import Behaviour
from rsctl.targets.vertex.emulator.cloudstorage import CloudStorage
from rsctl.targets.vertex.emulator.contract import JobContext, bucket_names
from rsctl.targets.vertex.emulator.google_services import GoogleEmulator
from rsctl.targets.vertex.emulator.job_record import JobRecord
from rsctl.targets.vertex.emulator.job_thread import CustomJobThread, JobResources
from rsctl.targets.vertex.emulator.jobs import Jobs
from rsctl.targets.vertex.emulator.log_store import LogStore
from rsctl.targets.vertex.emulator.logs import Logging
from rsctl.targets.vertex.emulator.machines import size
from rsctl.targets.vertex.emulator.metadata import Metadata
from rsctl.targets.vertex.emulator.metrics import Monitoring
from rsctl.targets.vertex.emulator.reduction_server import choose_stand_in
from rsctl.targets.vertex.emulator.samples import SampledMachine, Samples
from rsctl.targets.vertex.emulator.tensorboards import Tensorboards

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_UNKNOWN_MACHINE = SampledMachine(1, 1.0)


class VertexEmulator(GoogleEmulator):
    """Vertex AI's custom jobs of one project in one region, or in `more_regions` too; they really
    run.

    `folder` gets the buckets, as `gs/BUCKET`, whose files containers find as `/gcs/BUCKET`; buckets
    that a job mentions are there. `runner` runs the nodes; `behaviour` has waits, limits and
    faults.
    """

    control_terms = ControlTerms(
        "task", "INVALID_ARGUMENT", "NOT_FOUND", "there is no such job in progress"
    )

    def __init__(
        self,
        folder: Path,
        runner: NodeRunner,
        project: str = "rehearsal",
        region: str = "us-central1",
        *,
        more_regions: Iterable[str] = (),
        behaviour: Behaviour | None = None,
        buckets: tuple[str, ...] = ("staging",),
    ) -> None:
        super().__init__(project)
        self.region = region
        self.behaviour = behaviour or Behaviour()
        self.storage = CloudStorage(self, buckets, folder / "gs")
        self.log_store = LogStore(self.behaviour)
        self._samples = Samples(self.behaviour)
        self._resources = JobResources(runner, self.behaviour, self.log_store, self._samples)
        self._threads = JobThreads()
        self._scratch = ScratchFolder()
        self.jobs = Jobs(
            self, (region, *more_regions), self.behaviour, self._begin, self._cancel, self._forget
        )
        logging = Logging(self, self.log_store, self.behaviour)
        monitoring = Monitoring(self, self._samples, self._machine, self.behaviour)
        metadata, boards = Metadata(self, region), Tensorboards(self, region)
        for part in (self.storage, self.jobs, logging, monitoring, metadata, boards, Control(self)):
            self.routes += part.routes()

    def environment(self) -> dict[str, str]:
        """The variables by which Google's clients, gcloud and rsctl find this emulator."""
        key = self._scratch.path / "key.json"
        self.access.write_key(key, f"{self.url}/token")
        services = ("AIPLATFORM", "LOGGING", "MONITORING", "STORAGE")
        return {
            "GOOGLE_APPLICATION_CREDENTIALS": str(key),
            **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name}": self.url for name in services},
            # With STORAGE_EMULATOR_HOST Google's storage client would leave out its credentials.
            "API_ENDPOINT_OVERRIDE": self.url,
        }

    @property
    def is_idle(self) -> bool:
        """Whether no job is running, nor one whose `error` is still to be filled in."""
        return self._threads.are_finished

    def shown_jobs(self) -> list[dict[str, Any]]:
        """See Controlled: {name, state, stand_in} each."""
        return [
            {"name": record.shown["name"], "state": record.state, "stand_in": record.stand_in}
            for record in self.jobs.records.values()
        ]

    def preempt(self, job: str, machine: str | None = None) -> None:
        """See Controlled; a machine is named by its task."""
        thread = self._threads[job]
        if not thread.is_alive():
            raise KeyError(job)
        thread.preempt(machine)

    def expire(self) -> None:
        """See Controlled: all calls but those of control are refused from now on."""
        self.access.is_revoked = True

    def stop(self) -> None:
        """End all jobs and remove what only this emulator needed; the buckets stay."""
        self._threads.close()
        self._scratch.close()

    def _begin(self, record: JobRecord) -> None:
        spec = record.shown["jobSpec"]
        for name in bucket_names(spec):
            if _BUCKET.fullmatch(name):
                self.storage.make(name)
        stand_in = choose_stand_in(spec["workerPoolSpecs"])
        record.stand_in = stand_in.kind
        job_id = record.job_id
        context = JobContext(
            self.project, self.number, record.region, job_id, self.storage.folders()
        )
        thread = CustomJobThread(record, context, stand_in, self._resources, self.jobs.admit)
        self._threads.start(job_id, thread)

    def _cancel(self, record: JobRecord) -> None:
        self._threads[record.job_id].cancel()

    def _forget(self, record: JobRecord) -> None:
        self._samples.drop(record.job_id)

    def _machine(self, job_id: str, task: str) -> SampledMachine:
        """The machine of a task, if it is in the catalogue."""
        record = self.jobs.records.get(job_id)
        if record is None:
            return _UNKNOWN_MACHINE
        pool = record.shown["jobSpec"]["workerPoolSpecs"][int(task[len("workerpool")])]
        known = size(pool.get("machineSpec", {}).get("machineType", ""))
        return SampledMachine(*known) if known else _UNKNOWN_MACHINE
