"""How the replicas of one attempt ended, and so the attempt."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from time import monotonic

import msgspec
from msgspec.structs import replace

from rsctl.findings import JobState
from rsctl.runs.exit_reports import believable, without_node
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.recorder import Recorder
from rsctl.runs.stalls.findings import collapse_finding
from rsctl.runs.stalls.verdict_type import Verdict
from rsctl.runs.stream.events import Failure, now
from rsctl.targets.local.backend import ReplicaExit
from rsctl.targets.local.endings import Endings, role_of
from rsctl.targets.local.replica import ReplicaProcess

_ENDED_WHEN_ASKED = (0, 128 + signal.SIGTERM)


class AttemptOutcome(msgspec.Struct):
    """How an attempt ended, and its first failure if that is why."""

    state: JobState
    reason: str | None = None
    failure: Failure | None = None
    may_restart: bool = True


class ReplicaExits:
    """The exits of one attempt; records the state in which each replica ended.

    `stop_state` is the state of a job that is ended from outside, by a cancel or its time limit.
    """

    def __init__(self, folder: RunFolder, description: RunDescription, recorder: Recorder) -> None:
        self.stop_state: JobState | None = None
        self.early_end: AttemptOutcome | None = None
        """How the attempt ends that rsctl ends for a stall or a rule of `watch`."""
        self.collapse: Verdict | None = None
        """Who called another collective than the others, where ranks failed by that."""
        self._folder = folder
        self._description = description
        self._recorder = recorder
        self._endings = Endings(description.replicas, description.roles)
        self._exits: dict[str, ReplicaExit] = {}
        self._failed: list[str] = []
        self._stopped_at: dict[str, str] = {}
        self._reports: list[Failure] = []

    def __contains__(self, replica: str) -> bool:
        return replica in self._exits

    @property
    def is_ending(self) -> bool:
        """Whether the attempt ends early. A replica that has succeeded does not end it."""
        return bool(self._failed or self.stop_state or self.early_end)

    def add_reports(self, reports: Iterable[Failure]) -> None:
        """Take failures that ranks report in their replicas' logs."""
        self._reports += reports

    def restarted_in_place(self, replica: str) -> None:
        """Drop what this node has reported: torchrun has started its ranks again."""
        self._reports = without_node(self._reports, replica)

    def add(self, replica: ReplicaProcess, exited: ReplicaExit) -> None:
        """Take the exit of a replica; whether some failures count is for `judge` to decide."""
        name, code = replica.name, exited.exit_code
        self._exits[name] = exited
        if replica.stopped_at:
            self._stopped_at[name] = replica.stopped_at
            state, why = self._state_of_stopped(replica, code)
            self._recorder.state(state, name, code, why)
        elif code == 0:
            self._recorder.state(JobState.SUCCEEDED, name, code, exited.reason)
        elif self._description.may_lose_reducers and role_of(name) == "reducer":
            reason = ", ".join(filter(None, [exited.reason, "the workers continue without it"]))
            self._recorder.state(JobState.FAILED, name, code, reason)
        else:
            self._reports.append(Failure(replica=name, time=now(), exit_code=code))
            if self._endings.may_be_in_the_wake(name):
                self._endings.wait_for_workers(name, monotonic())
            else:
                self._add_failure(name)

    def judge(self) -> None:
        """Record the ends of replicas that may only have lost workers that were ending."""
        has_failed = bool(self._failed or self.stop_state)
        judged = self._endings.judged(self._workers_ended(), has_failed, monotonic())
        for name, is_wake in judged.items():
            if is_wake:
                code, why = self._exits[name].exit_code, "it ended at the same time as the workers"
                self._recorder.state(JobState.SUCCEEDED, name, code, why)
            else:
                self._add_failure(name)

    def no_longer_needed(self) -> list[str]:
        """The replicas that must end because others have ended or failed."""
        replicas = self._description.replicas
        if self._failed:
            return list(replicas)
        if self._workers_ended():
            return [name for name in replicas if not self._endings.goes_on(name)]
        return []

    def first_to_end(self) -> list[str]:
        """The replicas that are asked to end where the job is stopped: those which are needed while
        the workers save their state, such as reducers, follow when the workers have ended.
        """
        return [name for name in self._description.replicas if not self._endings.is_needed(name)]

    def outcome(self) -> AttemptOutcome:
        """The attempt's end, after all have ended; records which failed because others ended."""
        if self.stop_state is JobState.EXPIRED:
            return AttemptOutcome(
                JobState.EXPIRED, f"limits.timeout of {self._description.timeout:.10g} s"
            )
        if self.stop_state:
            return AttemptOutcome(self.stop_state)
        if self.early_end is not None:
            return self.early_end
        if not self._failed:
            return AttemptOutcome(JobState.SUCCEEDED)
        first = self._first_failure()
        if self.collapse is not None:
            first = self._with_collapse(first, self.collapse)
        if first.replica not in self._failed:
            why = "while others waited for it" if first.is_early_end else None
            self._recorder.state(JobState.FAILED, first.replica, first.exit_code, why)
        for name in self._failed:
            if name != first.replica:
                code, why = self._exits[name].exit_code, first.why_failed(name)
                self._recorder.state(JobState.FAILED, name, code, why)
        return AttemptOutcome(JobState.FAILED, first.reason, first)

    def _with_collapse(self, first: Failure, collapse: Verdict) -> Failure:
        """The failure of the rank that differed. Others may have ended before it, and it may not
        have reported its own end, because it was still ending when its node was stopped.
        """
        if collapse.guilty and first.rank not in collapse.guilty:
            node = [report for report in self._reports if report.replica in collapse.replicas[:1]]
            own = [report for report in node if report.rank in collapse.guilty]
            unreported = [replace(report, rank=collapse.guilty[0]) for report in node]
            if node:
                from rsctl.runs.failures import first_failure

                first = first_failure(own or unreported, self._folder)
        return replace(first, causes=[collapse_finding(collapse), *first.causes])

    def _first_failure(self) -> Failure:
        from rsctl.runs.failures import first_failure  # most runs do not fail

        before = [report for report in self._reports if not self._was_stopped_before(report)]
        reports = believable(before, {*self._failed, *self._stopped_at}, self._exits)
        killers = {name: self._exits[name].killer for name in self._failed}  # we ended the others
        return first_failure(reports, self._folder, killers)

    def _was_stopped_before(self, report: Failure) -> bool:
        """Whether a rank failed after its node had been asked to end.

        A rank that had failed before may still be the first: its launcher ends later than the rank,
        and the launcher of a rank that only lost this one may end earlier.
        """
        stopped_at = self._stopped_at.get(report.log or report.replica)
        return stopped_at is not None and report.time >= stopped_at

    def _workers_ended(self) -> bool:
        return self._endings.workers_ended(self._exits)

    def _add_failure(self, replica: str) -> None:
        exited = self._exits[replica]
        self._recorder.state(JobState.FAILED, replica, exited.exit_code, exited.reason)
        self._failed.append(replica)

    def _state_of_stopped(self, replica: ReplicaProcess, code: int) -> tuple[JobState, str]:
        """How a replica ended that had been asked to end, and why it was asked."""
        grace = self._description.grace_seconds
        killed = f", and killed {grace:g} s later" if replica.killed else ""
        if self.early_end is not None:
            return JobState.CANCELLED, f"stopped: {self.early_end.reason}{killed}"
        if self.stop_state:
            return JobState.CANCELLED, f"stopped: the job was {self.stop_state.value}{killed}"
        if self._failed:
            return JobState.CANCELLED, f"stopped after {self._failed[0]} had failed{killed}"
        if killed:
            return JobState.CANCELLED, f"stopped after the workers had ended{killed}"
        is_fine = code in _ENDED_WHEN_ASKED or self._endings.may_be_in_the_wake(replica.name)
        state = JobState.SUCCEEDED if is_fine else JobState.CANCELLED
        return state, "stopped after the workers had ended"
