"""One custom job from its creation to its end: quota, machines, containers, restarts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from rsctl.findings import RsctlError
from rsctl.targets.managed.emulator.job_events import Cancel, Closed, Event, Preempt
from rsctl.targets.managed.emulator.job_threads import JobThread
from rsctl.targets.managed.emulator.nodes import NodeRunner, NotStarted
from rsctl.targets.vertex.emulator import outcomes
from rsctl.targets.vertex.emulator.behaviour import Behaviour
from rsctl.targets.vertex.emulator.contract import EmulatedReplica, JobContext, replicas
from rsctl.targets.vertex.emulator.job_record import JobRecord
from rsctl.targets.vertex.emulator.log_store import LogStore
from rsctl.targets.vertex.emulator.outcomes import Outcome
from rsctl.targets.vertex.emulator.reduction_server import NOTES, StandIn
from rsctl.targets.vertex.emulator.replica_set import ReplicaSet
from rsctl.targets.vertex.emulator.retries import Retries
from rsctl.targets.vertex.emulator.samples import TELEMETRY, Samples
from rsctl.targets.vertex.emulator.usage_sampler import UsageSampler
from rsctl.targets.vertex.proto_json import seconds

_POLL_SECONDS = 0.05
_TAIL_LINES = 40
_DEFAULT_TIMEOUT = f"{7 * 24 * 3600}s"
_DEFAULT_FLEX_WAIT = f"{24 * 3600}s"
_NEVER = float("inf")
_OF_ENGINE = ("Error response from daemon: ", "failed to start containers", "cannot run ")


class JobResources(NamedTuple):
    """Shared state of all jobs of an emulator."""

    runner: NodeRunner
    behaviour: Behaviour
    log_store: LogStore
    samples: Samples


class CustomJobThread(JobThread):
    """The thread of one job. `admit` asks for the job's share of the quotas."""

    def __init__(
        self,
        record: JobRecord,
        context: JobContext,
        stand_in: StandIn,
        resources: JobResources,
        admit: Callable[[JobRecord], bool],
    ) -> None:
        super().__init__(f"vertex-{context.job_id}")
        self._record, self._job_context, self._stand_in = record, context, stand_in
        self._runner, self._behaviour, self._log_store, self._samples = resources
        self._admit = admit
        self._spec: dict[str, Any] = record.shown["jobSpec"]
        self._scheduling: dict[str, Any] = self._spec.get("scheduling", {})
        self._retries = Retries(self._scheduling)
        self._tasks: dict[str, str] = {}
        self._deadline = _NEVER
        self._sampler: Optional[UsageSampler] = None
        self._reporting: set[str] = set()
        self._held: dict[str, list[tuple[str, str]] | None] = {}

    def line(self, node: str, stream: str, text: str, time: str) -> None:
        """As `nodes.Listener` has it."""
        held = self._held.setdefault(node, [])
        if held is not None and stream == "stderr" and text.startswith(_OF_ENGINE):
            held.append((text, time))
            return
        self._release(node)
        self._log_store.write(self._job_context.job_id, self._tasks[node], stream, text, time)
        if text.startswith(TELEMETRY):
            self._take_telemetry(node, text, time)

    def _take_telemetry(self, node: str, text: str, time: str) -> None:
        """A node's own telemetry is better than what was measured before it came."""
        if self._sampler is not None:
            self._sampler.leave_out(node)
        if node not in self._reporting:
            self._reporting.add(node)
            self._samples.forget(self._job_context.job_id, self._tasks[node])
        self._measure(node, text, time)

    def _measure(self, node: str, line: str, time: str) -> None:
        self._samples.take(self._job_context.job_id, self._tasks[node], line, time)

    def ended(self, node: str, code: int) -> None:
        """As `nodes.Listener` has it."""
        if isinstance(code, NotStarted):
            self._held[node] = []
        self._release(node)
        del self._held[node]  # it may be started again
        super().ended(node, code)

    def _release(self, node: str) -> None:
        """Pass on what was held back, as the engine's words on a node that did not start."""
        for text, at in self._held.get(node) or ():
            self._log_store.write(self._job_context.job_id, self._tasks[node], "stderr", text, at)
        self._held[node] = None

    def run(self) -> None:
        """From QUEUED to the end."""
        try:
            outcome = self._wait_for_quota() or self._run_replicas()
            self._finish(outcome)
        except Closed:
            return
        except Exception:  # a fault of this emulator: the job does not stay as it is
            self._finish(outcomes.LOST)
            raise

    def _wait_for_quota(self) -> Outcome | None:
        """Stay QUEUED until there is quota."""
        self._log("Job creation request has been accepted.")
        if NOTES[self._stand_in.kind]:
            self._log(NOTES[self._stand_in.kind], "NOTICE")
        self.events.wait(self._behaviour.deadline(self._behaviour.queue))
        is_logged = False
        while not self.events.is_cancelled and not self._admit(self._record):
            if not is_logged:
                self._log("Job is queued: its quota is used up.", "WARNING")
                is_logged = True
            self.events.wait(time.monotonic() + _POLL_SECONDS)
        return outcomes.CANCELLED if self.events.is_cancelled else None

    def _run_replicas(self) -> Outcome:
        self._enter("JOB_STATE_PENDING", "Waiting for job to be provisioned.")
        try:
            nodes = self._runner.nodes(self._job_context.job_id, self)
        except (RsctlError, OSError) as problem:
            return outcomes.not_started("workerpool0-0", problem)
        found = replicas(self._job_context, self._spec, nodes, self._stand_in)
        self._tasks = {replica.name: replica.task for replica in found}
        replica_set = ReplicaSet(nodes, found, self._runner, self._behaviour)
        self._sampler = UsageSampler(nodes, replica_set.running, self._measure, self._behaviour)
        self._sampler.start()
        try:
            return self._run_attempts(replica_set)
        finally:
            self._sampler.stop()
            replica_set.close()

    def _run_attempts(self, replica_set: ReplicaSet) -> Outcome:
        """Attempts, until one is the last."""
        while True:
            outcome = self._get_machines() or self._attempt(replica_set)
            if outcome.kind == "cancelled":
                self._enter("JOB_STATE_CANCELLING", "Job is being cancelled.")
            replica_set.stop(self.events)
            if not self._is_retried(outcome):
                if outcome == outcomes.LOST:
                    self._log("Job will not be retried, max error retry attempts reached.")
                return outcome
            if self.events.is_cancelled:  # while its replicas were stopped for another reason
                return outcomes.CANCELLED
            self._enter("JOB_STATE_PENDING", outcome.message, "WARNING")

    def _get_machines(self) -> Outcome | None:
        """Wait for the first machine; with flex start for as long as the job says."""
        wait = seconds(self._scheduling.get("maxWaitDuration", _DEFAULT_FLEX_WAIT))
        give_up = time.monotonic() + (wait or _NEVER)
        if not self.events.wait(self._behaviour.deadline(self._behaviour.provision)):
            return outcomes.CANCELLED
        while self._behaviour.is_out_of_stock(self._job_context.region, self._record.machines):
            if self._retries.strategy != "FLEX_START" or time.monotonic() > give_up:
                return outcomes.stocked_out(self._job_context.region)
            if not self.events.wait(time.monotonic() + _POLL_SECONDS):
                return outcomes.CANCELLED
        return None

    def _attempt(self, replica_set: ReplicaSet) -> Outcome:
        """One start of all replicas, until its outcome is known."""
        replica_set.plan()
        is_running = False
        preempt_at = _NEVER
        while True:
            if not replica_set.due and not is_running:
                self._start_running()
                is_running = True
                preempt_at = self._behaviour.next_preemption()
            event = self.events.next(min([*replica_set.due.values(), self._deadline, preempt_at]))
            if event is None and time.monotonic() >= preempt_at:
                event, preempt_at = Preempt(None), _NEVER
            if event is not None:
                outcome = self._handle_event(event, replica_set)
            elif time.monotonic() >= self._deadline:
                outcome = outcomes.timed_out(self._scheduling.get("timeout", _DEFAULT_TIMEOUT))
            else:
                outcome = replica_set.start_due()
            if outcome:
                return outcome

    def _start_running(self) -> None:
        if self._deadline == _NEVER:
            timeout = self._scheduling.get("timeout", _DEFAULT_TIMEOUT)
            self._deadline = time.monotonic() + seconds(timeout)
        self._enter("JOB_STATE_RUNNING", "Job is running.")

    def _handle_event(self, event: Event, replica_set: ReplicaSet) -> Outcome | None:
        if isinstance(event, Cancel):
            return outcomes.CANCELLED
        if isinstance(event, Preempt):
            replica_set.preempt(event.machine)
            return None
        replica = replica_set.replicas[event.name]
        if replica_set.node_exited(event):
            return self._machine_lost(replica)
        return self._replica_exited(replica, event.code, replica_set)

    def _machine_lost(self, replica: EmulatedReplica) -> Outcome:
        """A lost machine; the service reports that of a spot one as a stock-out."""
        if self._retries.strategy != "SPOT":
            return outcomes.LOST
        self._log(f"The machine of {replica.task} was preempted.", "WARNING")
        return outcomes.stocked_out(self._job_context.region)._replace(kind="lost")

    def _replica_exited(
        self, replica: EmulatedReplica, code: int, replica_set: ReplicaSet
    ) -> Outcome | None:
        """The outcome of the job by a replica's exit, if that ends the job."""
        if code == 0:
            return outcomes.SUCCEEDED if replica.is_chief else None
        if isinstance(code, NotStarted):
            logs = outcomes.logs_url(self._job_context.number, self._job_context.job_id)
            return outcomes.start_error(replica.task, code.message, logs)
        again = self._retries.after_exit(replica.task, code)
        message = f"Replica {replica.task} exited with status {code}; "
        if again == "replica":
            self._log(message + "it restarts.", "WARNING")
            replica_set.start_in(replica.name, self._behaviour.restart)
            return None
        if again == "job":
            return Outcome("restart", 13, message + "the job restarts.")
        context = self._job_context
        tail = self._log_store.errors(context.job_id, replica.task, _TAIL_LINES)
        logs = outcomes.logs_url(context.number, context.job_id)
        return outcomes.exited(replica.task, code, tail, logs)

    def _is_retried(self, outcome: Outcome) -> bool:
        if outcome.kind == "lost":
            return self._retries.after_loss()
        if outcome.kind == "stockout" and self._retries.strategy != "FLEX_START":
            return self._retries.after_stockout()
        return outcome.kind == "restart"

    def _finish(self, outcome: Outcome) -> None:
        """The last state, and some time later its `error`."""
        if outcome.kind == "succeeded":
            self._end("JOB_STATE_SUCCEEDED", "Job completed successfully.", "INFO")
            return
        error = {"code": outcome.code, "message": outcome.message}
        delay = self._behaviour.error_delay
        shown = {} if delay else {"error": error}
        if outcome.kind == "cancelled":
            self._end("JOB_STATE_CANCELLED", "Job cancelled.", "INFO", **shown)
        elif outcome.kind == "timeout":
            self._end(self._behaviour.timeout_state, outcome.message, "ERROR", **shown)
        else:
            self._end("JOB_STATE_FAILED", "Job failed.", "ERROR", **shown)
        if delay:
            self.events.sleep(self._behaviour.deadline(delay))
            self._record.change(error=error)

    def _log(self, text: str, severity: str = "INFO", state: str = "") -> None:
        label = state.removeprefix("JOB_STATE_")
        self._log_store.write_service_entry(self._job_context.job_id, text, severity, label)

    def _enter(self, state: str, text: str, severity: str = "INFO") -> None:
        self._log(text, severity, state)
        self._record.enter(state)

    def _end(self, state: str, text: str, severity: str, **fields: Any) -> None:
        self._log(text, severity, state)
        self._record.end(state, **fields)
