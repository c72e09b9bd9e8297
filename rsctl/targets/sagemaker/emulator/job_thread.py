"""One training job from its creation to its end: machines, data, containers, interruptions."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import NamedTuple, Optional

from rsctl.findings import RsctlError
from rsctl.targets.managed.emulator.job_events import Cancel, Closed, NodeExited, Preempt
from rsctl.targets.managed.emulator.job_threads import JobThread
from rsctl.targets.managed.emulator.nodes import NodeRunner
from rsctl.targets.sagemaker.emulator import outcomes
from rsctl.targets.sagemaker.emulator.behaviour import Behaviour
from rsctl.targets.sagemaker.emulator.hosts import groups_of
from rsctl.targets.sagemaker.emulator.job_record import JobRecord, moment
from rsctl.targets.sagemaker.emulator.log_store import LogStore
from rsctl.targets.sagemaker.emulator.measurements import SampleStore
from rsctl.targets.sagemaker.emulator.outcomes import Outcome
from rsctl.targets.sagemaker.emulator.output import LogOutput
from rsctl.targets.sagemaker.emulator.replica_set import ReplicaSet
from rsctl.targets.sagemaker.emulator.s3_objects import FolderObjects
from rsctl.targets.sagemaker.emulator.storage import Storage
from rsctl.targets.sagemaker.emulator.warm_pools import WarmPools

_NEVER = float("inf")
_DEFAULT_RUNTIME = 86_400
_RETRY = 15.0
_LEAST_SYNC = 0.2
_SCARCE = "Insufficient capacity error from EC2 while launching instances, retrying!"


class JobResources(NamedTuple):
    """Shared state of all jobs of an emulator; `folder` is for the disks of their machines."""

    runner: NodeRunner
    behaviour: Behaviour
    objects: FolderObjects
    log_store: LogStore
    measurements: SampleStore
    pools: WarmPools
    folder: Path
    region: str


class TrainingJobThread(JobThread):
    """The thread of one job. `is_warm`: its machines come from a warm pool."""

    def __init__(self, record: JobRecord, resources: JobResources, is_warm: bool) -> None:
        super().__init__(f"sagemaker-{record.name}")
        self._record = record
        self._resources = resources
        self._behaviour = resources.behaviour
        self._is_warm = is_warm
        self._storage = Storage(resources.objects, record)
        self._output = LogOutput(record, resources.log_store, resources.measurements)
        self._replica_set: Optional[ReplicaSet] = None
        self._folder = resources.folder / record.name
        self._stopping = record.get("StoppingCondition", {})
        self._runtime_left = float(self._stopping.get("MaxRuntimeInSeconds", _DEFAULT_RUNTIME))
        wait = self._stopping.get("MaxWaitTimeInSeconds")
        self._wait_until = time.monotonic() + wait if wait else _NEVER
        self._retries = record.get("RetryStrategy", {}).get("MaximumRetryAttempts", 0)
        self._trained = 0.0

    def line(self, node: str, stream: str, text: str, time: str) -> None:
        """As `nodes.Listener` has it. In the log stdout and stderr are alike."""
        self._output.take(node, text, time)

    def run(self) -> None:
        """From Starting to the end."""
        try:
            try:
                outcome = self._attempts()
            finally:
                if self._replica_set is not None:
                    self._replica_set.close()
            self._finish(outcome)
        except Closed:
            return
        except OSError as problem:
            self._end(outcomes.not_stored(str(problem)))
        except Exception:  # a fault of this emulator: the job does not stay as it is
            self._end(outcomes.LOST)
            raise
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _attempts(self) -> Outcome:
        while True:
            outcome = self._get_machines() or self._attempt()
            if self.events.is_cancelled and outcome.kind in outcomes.INTERRUPTIONS:
                return outcomes.STOPPED
            if outcome.kind == "interrupted":
                self._record.enter("Interrupted", "Managed spot training instances interrupted")
                if given_up := self._wait(self._behaviour.interrupted):
                    return given_up
            elif outcome.kind == "internal" and self._retries:
                self._retries -= 1
                self._record.enter("Restarting", "Restarting the training job")
            else:
                return outcome

    def _get_machines(self) -> Outcome | None:
        if self._is_warm:
            self._is_warm = False
            return None
        self._record.enter("Starting", "Launching requested ML instances")
        if outcome := self._wait(self._behaviour.launch) or self._wait_for_capacity():
            return outcome
        self._record.enter("Starting", "Preparing the instances for training")
        return self._wait(self._behaviour.prepare)

    def _wait_for_capacity(self) -> Outcome | None:
        pending = self._stopping.get("MaxPendingTimeInSeconds")
        longest = pending or self._behaviour.give_up * self._behaviour.pace
        give_up = time.monotonic() + longest
        machines = {group.machine for group in groups_of(self._record["ResourceConfig"])}
        while self._behaviour.is_out_of_stock(self._resources.region, machines):
            self._record.enter("Pending" if pending else "Starting", _SCARCE)
            if time.monotonic() > give_up:
                return outcomes.MAX_WAIT if self._record.is_spot else outcomes.NO_CAPACITY
            if outcome := self._wait(_RETRY):
                return outcome
        return None

    def _attempt(self) -> Outcome:
        """One start of all containers, up to their ends."""
        outcome = self._download()
        if outcome or self._replica_set is None:
            return outcome or outcomes.LOST
        begin = time.monotonic()
        self._output.begin(self._replica_set.hosts)
        self._record.enter("Training", "Training image download completed. Training in progress.")
        outcome = self._replica_set.start() or self._train(
            self._replica_set, begin + self._runtime_left
        )
        has_notice = self._behaviour.spot_notice or outcome.kind not in outcomes.INTERRUPTIONS
        self._replica_set.end(self._behaviour.real_grace if has_notice else None, self.events)
        if has_notice:
            self._storage.sync()
        if outcome.kind in outcomes.INTERRUPTIONS:
            self._replica_set.machines = []
        self._runtime_left -= time.monotonic() - begin
        self._trained += time.monotonic() - begin
        return outcome

    def _download(self) -> Outcome | None:
        """Put everything on the machines that the containers need."""
        what = "input data" if self._storage.has_channels else "the training image"
        self._record.enter("Downloading", f"Downloading {what}")
        if not self._has_started:
            self._record.change(TrainingStartTime=moment())
        try:
            if self._replica_set is None:
                is_isolated = bool(self._record.get("EnableNetworkIsolation"))
                nodes = self._resources.runner.nodes(self._record.name, self, is_isolated)
                self._replica_set = ReplicaSet(nodes, self._resources.runner, self._record)
            shutil.rmtree(self._folder, ignore_errors=True)
            self._replica_set.prepare_machines(self._folder)
            self._storage.fill(self._replica_set.machines)
        except RsctlError as problem:
            return outcomes.not_started(problem)
        except OSError as problem:
            return outcomes.not_downloaded(str(problem))
        self._record.enter("Downloading", "Downloading the training image")
        return self._wait(self._behaviour.image)

    def _train(self, replica_set: ReplicaSet, deadline: float) -> Outcome:
        sync, preempt_at = self._next_sync(), self._behaviour.next_preemption()
        while True:
            event = self.events.next(min(deadline, sync, preempt_at, self._wait_until))
            if event is None and time.monotonic() >= preempt_at:
                event, preempt_at = Preempt(None), _NEVER
            outcome = None
            if isinstance(event, Cancel):
                outcome = outcomes.STOPPED
            elif isinstance(event, Preempt):
                outcome = self._machine_lost(replica_set, event.machine)
            elif isinstance(event, NodeExited):
                outcome = replica_set.node_exited(event)
            elif time.monotonic() >= self._wait_until:
                outcome = outcomes.MAX_WAIT
            elif time.monotonic() >= deadline:
                outcome = outcomes.MAX_RUNTIME
            else:
                self._storage.sync()
                sync = self._next_sync()
            if outcome:
                return outcome

    @property
    def _has_started(self) -> bool:
        return self._record.get("TrainingStartTime") is not None

    def _next_sync(self) -> float:
        return time.monotonic() + max(self._behaviour.sync * self._behaviour.pace, _LEAST_SYNC)

    def _machine_lost(self, replica_set: ReplicaSet, host: str | None) -> Outcome:
        """A machine is lost; of spot machines all are, after a SIGTERM."""
        if self._record.is_spot:
            return outcomes.INTERRUPTED
        replica_set.kill(host)
        return outcomes.LOST

    def _finish(self, outcome: Outcome) -> None:
        """Store the results, then change to the final status."""
        if outcome.kind == "max-wait":  # as documented: Stopping, then Stopped
            self._record.stop()
        if self._has_started and outcome.kind in ("failed", *outcomes.INTERRUPTIONS):
            self._record.change(TrainingEndTime=moment())
        if self._trained and self._replica_set is not None:
            self._record.enter("Uploading", "Uploading generated training model")
            self._storage.store(self._replica_set.machines)
            self.events.sleep(self._behaviour.deadline(self._behaviour.upload))
        if self.events.is_cancelled and outcome.kind == "completed":
            outcome = outcomes.STOPPED
        self._end(outcome)

    def _end(self, outcome: Outcome) -> None:
        metrics = self._resources.measurements.last(self._record.name, self._record["CreationTime"])
        self._record.change(**({"FinalMetricDataList": metrics} if metrics else {}))
        if self._has_started:
            self._record.change(**self._times())
            if outcome.kind != "internal":
                self._resources.pools.keep(self._record)
        self._record.end(*outcomes.FINAL_STATUS[outcome.kind], outcome.reason)

    def _times(self) -> dict[str, float]:
        """When it ended, and what it took in whole seconds."""
        end = self._record.get("TrainingEndTime", moment())
        whole = max(1, round(end - self._record["TrainingStartTime"]))
        billed = self._trained * self._behaviour.spot_billed if self._record.is_spot else whole
        return {
            "TrainingEndTime": end,
            "TrainingTimeInSeconds": whole,
            "BillableTimeInSeconds": max(1, round(billed)),
        }

    def _wait(self, simulated_seconds: float) -> Outcome | None:
        """Wait; the job's outcome if it ends meanwhile."""
        until = self._behaviour.deadline(simulated_seconds)
        if not self.events.wait(min(until, self._wait_until)):
            return outcomes.STOPPED
        return outcomes.MAX_WAIT if until > self._wait_until else None
