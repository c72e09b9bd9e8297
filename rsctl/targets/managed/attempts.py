"""Counts a job's attempts, records why each ended, and notes when there are too many.

Not every service reports how often it has restarted a job. So attempts are counted by their signs:
the service's own count if there is one, a job that is starting after it ran, and the first line
that `rsctl-launch` prints in each container.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rsctl.findings import JobState, warning
from rsctl.runs.failures import first_failure
from rsctl.runs.folder import RestartLimit, RunFolder
from rsctl.runs.recorder import Recorder
from rsctl.runs.stream.ends import LOST_PEER
from rsctl.runs.stream.events import Attempt, Failure, LogEvent
from rsctl.runs.stream.metrics import structured
from rsctl.targets.managed.progress import CollectorProgress
from rsctl.targets.managed.service import JobStatus

_BEING_STARTED = (JobState.QUEUED, JobState.STARTING)
_PREEMPTION_SIGNALS = ("SIGTERM", "SIGKILL")
_AGAIN = "it was started again; the reason is unknown"
_AGAIN_ON_SPOT = "nothing in it had failed; spot machines may have been preempted"


class AttemptTracker:
    """Keeps the attempts of a job in `progress`, and notes there that they are beyond its limit.

    `poll_now` is called to have the job cancelled for it, and when it may have another state.
    """

    def __init__(
        self,
        folder: RunFolder,
        progress: CollectorProgress,
        recorder: Recorder,
        poll_now: Callable[[], None],
    ) -> None:
        self._folder, self._poll_now = folder, poll_now
        self._progress, self._recorder = progress, recorder
        description = folder.known_description()
        self._limit = description.restarts if description else None
        self._restarted: str | None = None
        self._is_interrupted = False
        recorder.attempt = progress.before + progress.attempt

    def count(self, status: JobStatus) -> JobStatus:
        """The status with the number of its attempt."""
        progress, self._restarted = self._progress, status.restarted
        self._is_interrupted = status.is_interrupted
        if progress.state is JobState.RUNNING and status.state in _BEING_STARTED:
            progress.restarts += 1
        number = max(status.attempt, 1 + progress.restarts, progress.attempt)
        is_counted = status.attempt == number  # then its reason is the restart's
        running = progress.running
        for each in range(progress.attempt + 1, number + 1):
            self._begin(each, status.time, status.reason if is_counted else None)
        if status.state in _BEING_STARTED and not progress.running:
            for replica in running:  # of the former attempt
                self._recorder.state(JobState.QUEUED, replica, time=status.time)
        if not status.state.is_final:
            self._end_if_too_many()
        number += progress.before
        return self._with_limit(msgspec.structs.replace(status, attempt=number))

    def examine(self, line: LogEvent) -> bool:
        """Whether this line is the first one of a container; it may begin an attempt."""
        record = structured(line.text)
        if record is None or record["rsctl"] != "node":
            return False
        starts = self._progress.starts
        starts[line.replica] = starts.get(line.replica, 0) + 1
        if starts[line.replica] > self._progress.attempt:
            self._begin(starts[line.replica], line.time, None)
            self._poll_now()
        return True

    def add_failure(self, failure: Failure) -> None:
        """A rank's report of its exit belongs to the attempt that its container began in.

        The log may arrive later than the state.
        """
        progress = self._progress
        number = progress.starts.get(failure.replica, progress.attempt)
        counted = progress.before + number
        earlier = [attempt for attempt in progress.attempts if attempt.attempt == counted]
        if number >= progress.attempt or not earlier:
            progress.add_failure(failure)
        elif earlier[0].failure is None:
            self._explain(earlier[0], [failure])

    def _begin(self, number: int, time: str, reason: str | None) -> None:
        """Record the end of the present attempt, which another one follows."""
        progress = self._progress
        why = self._restarted or reason or (_AGAIN_ON_SPOT if self._is_spot else _AGAIN)
        ended = Attempt(attempt=progress.before + progress.attempt, ended=time, reason=why)
        progress.attempts.append(ended)
        self._explain(ended, progress.failures)
        progress.begin(number)
        self._recorder.attempt = progress.before + number

    def _explain(self, attempt: Attempt, failures: list[Failure]) -> None:
        failure = first_failure(failures, self._folder) if failures else None
        may_be_lost = self._is_spot or self._is_interrupted
        if failure is not None and not (may_be_lost and is_preemption(failure)):
            attempt.failure = failure
            attempt.reason = failure.reason
        self._recorder.attempt_ended(attempt)

    @property
    def _is_spot(self) -> bool:
        return self._limit is not None and self._limit.is_spot

    def _end_if_too_many(self) -> None:
        """Have the job cancelled; by its next state it has failed."""
        progress, limit = self._progress, self._limit
        if limit is None or progress.restarted_too_often:
            return
        counted = [attempt for attempt in progress.attempts if attempt.failure or not self._is_spot]
        if len(counted) > limit.most:
            progress.restarted_too_often = True
            self._poll_now()
            finding = warning("restarts", _too_often(limit), "find out why the attempts failed")
            self._recorder.finding(finding)

    def _with_limit(self, status: JobStatus) -> JobStatus:
        is_ours = self._progress.restarted_too_often and status.state is JobState.CANCELLED
        if self._limit is None or not is_ours:
            return status
        reason = _too_often(self._limit)
        return msgspec.structs.replace(status, state=JobState.FAILED, reason=reason)


def is_preemption(failure: Failure) -> bool:
    """Whether it is a typical failure of ranks whose machine, or a peer's, is lost."""
    code = failure.causes[0].code if failure.causes else None
    return code == LOST_PEER or (failure.signal in _PREEMPTION_SIGNALS and code != "memory")


def _too_often(limit: RestartLimit) -> str:
    times = "restart" if limit.most == 1 else "restarts"
    return (
        f"it was restarted more often than the limit of {limit.most} {times} allows: ended by rsctl"
    )
