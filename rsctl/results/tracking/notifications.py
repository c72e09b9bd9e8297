"""Sends messages about a run's events to one receiver, each at most once.

The cursor has an event before its message is sent. A process that is killed while it sends leaves
an event that may have been sent, and no other process sends it again.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from rsctl.bench.records import Benches
from rsctl.findings import ExitCode, RsctlError
from rsctl.job.job import Job
from rsctl.job.tracking import PlannedTracker
from rsctl.results.tracking.apprise_urls import receiver_problem, send_message
from rsctl.results.tracking.messages import EVENT_OF_END, Message, run_message
from rsctl.results.tracking.sender import Sender, is_complete
from rsctl.runs.findings import findings_of
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import STALL, now, seconds_between
from rsctl.runs.tracker import TrackerError
from rsctl.targets.doctor import Check, ok

_CAUSE_SECONDS = 10.0
"""How long after the end of a run its cause may still arrive with its log."""


class NotificationSender(Sender):
    """See Sender; `cursor.state` has the events for which a message was tried."""

    def __init__(self, store: Store, run: str, index: int, planned: PlannedTracker) -> None:
        super().__init__(store, run, index, planned)
        receiver_problem(planned.location, "notify")  # Apprise is imported before it is in a hurry

    def step(self) -> bool:
        """Send one message, if one is due; whether there may be more.

        Raises RsctlError if nothing can be sent from here: then the event stays due.
        """
        run = self._known()
        if run is None or self.cursor.is_complete:
            return False
        tried = self.cursor.state
        for key, message in self._due_messages(run):
            if key in tried:
                continue
            finding = receiver_problem(self.planned.location, "notify")
            if finding is not None:
                raise RsctlError(ExitCode.ENVIRONMENT, finding)
            # Otherwise the problem was of an environment that lacked the URL.
            problem = self.cursor.problem if "failed" in tried.values() else None
            self._write(replace(self.cursor, state={**tried, key: "sending"}, problem=problem))
            try:
                send_message(self.planned.location, message)
            except TrackerError as failed:
                self._write(replace(self.cursor, state={**tried, key: "failed"}))
                self.failed(f"the message about {key!r} was not sent: {failed}")
            else:
                self._write(replace(self.cursor, state={**tried, key: "sent"}))
            return True
        if run.state.is_final and self._is_explained(run):
            self._write(replace(self.cursor, is_complete=True))
        return False

    def _due_messages(self, run: RunRecord) -> Iterator[tuple[str, Message]]:
        if "stalled" in self.planned.events:
            stalls = [each for each in findings_of(self._run) if each.code == STALL]
            for number, stall in enumerate(stalls, start=1):
                yield f"stalled {number}", run_message(run, "stalled", stall)
        end = EVENT_OF_END.get(run.state)
        if end not in self.planned.events or Benches(self._store).of_run(run.run) is not None:
            return  # of a bench there is one message: `bench_notifications`
        if self._is_explained(run):
            yield end, run_message(run, run.state.value)

    def _is_explained(self, run: RunRecord) -> bool:
        if run.first_failure is not None or is_complete(self._store, run):
            return True
        return seconds_between(run.ended or now(), now()) > _CAUSE_SECONDS


def receiver_checks(job: Job) -> Iterator[Check]:
    """Whether each receiver can be sent messages from here; sends nothing."""
    for index, each in enumerate(job.notify):
        path = f"notify[{index}].url"
        problem = receiver_problem(each.url, path)
        if problem is None:
            yield ok(path, f"Apprise understands the URL in {each.url}")
        else:
            yield Check(
                name=path,
                verdict="error",
                message=problem.message,
                remedy=problem.remedy,
                path=path,
            )
