"""Sends one message about a bench to each receiver: that it has ended, or that a gate judged it.

The bench's folder keeps what was sent, before it is sent: each message is sent at most once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from rsctl.atomic_file import read_json, write_file
from rsctl.bench.decision import decision_about
from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Benches, BenchRecord
from rsctl.job.notify import DEFAULT_EVENTS, NotifyEvent
from rsctl.results.tracking.apprise_urls import receiver_problem, send_message
from rsctl.results.tracking.messages import EVENT_OF_END, Message, bench_message, gate_message
from rsctl.runs.locks import try_lock
from rsctl.runs.store import Store
from rsctl.runs.tracker import TrackerError

Subject = Literal["end", "regressed"]
"""The subject of a message: the end of a bench, or the decision of a gate about it."""


def send_end(bench: str) -> None:
    """Send that a bench has ended to its job's receivers; again once further runs have ended it."""
    record = _record(bench)
    event = EVENT_OF_END.get(record.state) if record else None
    if record is not None and event is not None:
        _send(record, "end", event, bench_message(record), f"{event} {len(record.trials)}")


def send_regressed(bench: str) -> None:
    """Send the last decision of a gate about a bench to its job's receivers, each once.

    A later gate with the same baseline sends nothing.
    """
    record, decision = _record(bench), decision_about(bench)
    if record is not None and decision is not None:
        message = gate_message(record.name, decision)
        _send(record, "regressed", "regressed", message, decision.gate.baseline)


def receivers_of(spec: Mapping[str, Any], event: NotifyEvent) -> list[str]:
    """The variables with the URLs that get messages about an event, of a job as it is kept."""
    receivers = [(each["url"], each.get("on")) for each in spec.get("notify") or ()]
    return [str(url) for url, events in receivers if event in (events or DEFAULT_EVENTS)]


def bench_messages(bench: str, subject: Subject) -> dict[str, str]:
    """The results of the messages about a bench, by receiver and by what they are about."""
    return read_json(_file(bench, subject), dict[str, str]) or {}


def _record(bench: str) -> BenchRecord | None:
    with closing(Store()) as store:
        return Benches(store).get(bench)


def _send(
    record: BenchRecord, subject: Subject, event: NotifyEvent, message: Message, about: str
) -> None:
    with _locked(record.bench, subject) as is_ours:
        tried = bench_messages(record.bench, subject)
        for location in receivers_of(record.spec, event) if is_ours else ():
            key = f"{location} {about}"
            if not tried.get(key, "due").startswith("due"):
                continue
            problem = receiver_problem(location, "notify")
            tried[key] = "sending" if problem is None else f"due: {problem.message}"
            _keep(record.bench, subject, tried)
            if problem is not None:
                continue
            try:
                send_message(location, message)
                tried[key] = "sent"
            except TrackerError as failed:
                tried[key] = f"failed: {failed}"
            _keep(record.bench, subject, tried)


@contextmanager
def _locked(bench: str, subject: Subject) -> Iterator[bool]:
    """Whether no other process sends these messages now."""
    lock = try_lock(BenchFolder(bench).path / f"notify-{subject}.lock")
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _keep(bench: str, subject: Subject, tried: dict[str, str]) -> None:
    write_file(_file(bench, subject), msgspec.json.encode(tried))


def _file(bench: str, subject: Subject) -> Path:
    return BenchFolder(bench).path / f"notified-{subject}.json"
