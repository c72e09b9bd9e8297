"""Sends messages about a run's events to one receiver, each at most once.

The cursor has an event before its message is sent. A process that is killed while it sends leaves
an event that may have been sent, and no other process sends it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from rsctl.atomic_file import write_file
from rsctl.bench.decision import decision_about
from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Benches
from rsctl.findings import ExitCode, JobState, RsctlError
from rsctl.job.job import Job
from rsctl.job.tracking import PlannedTracker
from rsctl.results.tracking.apprise_urls import receiver_problem, send_message
from rsctl.results.tracking.messages import Message, gate_message, run_message
from rsctl.results.tracking.sender import Sender, is_complete
from rsctl.runs.findings import findings_of
from rsctl.runs.locks import try_lock
from rsctl.runs.records import RunRecord
from rsctl.runs.stalls.findings import CODE as STALL
from rsctl.runs.store import Store
from rsctl.runs.stream.events import now, seconds_between
from rsctl.runs.tracker import TrackerError
from rsctl.targets.doctor import Check, ok

_ENDS = {
    JobState.FAILED: "failed",
    JobState.EXPIRED: "failed",
    JobState.SUCCEEDED: "succeeded",
}
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
            problem = receiver_problem(self.planned.location, "notify")
            if problem is not None:
                raise RsctlError(ExitCode.ENVIRONMENT, problem)
            self._write(replace(self.cursor, state={**tried, key: "sending"}))
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
        end = _ENDS.get(run.state)
        if end in self.planned.events and self._is_explained(run):
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


def send_regressed(bench: str) -> None:
    """Send the last decision of a gate about a bench to its job's receivers, each once.

    A later gate with the same baseline sends nothing. The bench's folder keeps what was sent.
    """
    store = Store()
    record, decision = Benches(store).get(bench), decision_about(bench)
    store.close()
    if record is None or decision is None:
        return
    folder = BenchFolder(bench).path
    lock = try_lock(folder / "notify.lock")
    if lock is None:
        return
    tried = regressed_messages(bench)
    message = gate_message(record.name, decision)
    for location in receivers_of_regressions(record.spec):
        key = f"{location} {decision.gate.baseline}"
        if tried.get(key, "due").startswith("due"):
            problem = receiver_problem(location, "notify")
            tried[key] = "sending" if problem is None else f"due: {problem.message}"
            _keep(bench, tried)
            if problem is None:
                try:
                    send_message(location, message)
                    tried[key] = "sent"
                except TrackerError as failed:
                    tried[key] = f"failed: {failed}"
                _keep(bench, tried)
    os.close(lock)


def receivers_of_regressions(spec: Mapping[str, Any]) -> list[str]:
    """The variables with the URLs that get a message about a regression, of a job as it is kept."""
    receivers = [(each["url"], each.get("on")) for each in spec.get("notify") or ()]
    return [str(url) for url, events in receivers if events is None or "regressed" in events]


def regressed_messages(bench: str) -> dict[str, str]:
    """The results of the messages about regressions of a bench, by receiver and baseline."""
    try:
        return msgspec.json.decode(_messages_file(bench).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}


def _keep(bench: str, tried: dict[str, str]) -> None:
    write_file(_messages_file(bench), msgspec.json.encode(tried))


def _messages_file(bench: str) -> Path:
    return BenchFolder(bench).path / "notified.json"
