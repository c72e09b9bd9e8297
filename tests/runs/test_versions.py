"""What replicas say that they run on."""

from __future__ import annotations

from rsctl.findings import JobState
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import LogEvent
from rsctl.runs.versions import keep_versions, reported_versions, versions_of


def line(text: str) -> LogEvent:
    """A line of a log."""
    return LogEvent("2026-01-01T00:00:00.000000Z", "worker-0", "0", "stdout", text)


def test_a_line_of_versions() -> None:
    text = '{"rsctl": "versions", "rsctl_version": "0.1.0", "torch": "2.8.0", "cores": "2"}'
    assert reported_versions(line(text)) == {"torch": "2.8.0", "cores": "2", "rsctl": "0.1.0"}


def test_other_lines() -> None:
    assert reported_versions(line("torch 2.8.0")) is None
    assert reported_versions(line('{"rsctl": "metrics", "torch": "2.8.0"}')) is None


def test_what_is_strange_in_it_is_left_out() -> None:
    text = '{"rsctl": "versions", "torch": 3, "cpu": "\\u001b[31mred", "evil": "x", "driver": "%s"}'
    told = reported_versions(line(text % ("5" * 1000)))
    assert told is not None
    assert "\x1b" not in told.pop("cpu")
    assert told == {"driver": "5" * 200}


def test_the_store_keeps_them_by_replica() -> None:
    store = Store()
    store.add(
        RunRecord(
            run="job-a",
            name="job",
            target="process",
            url="process://job-a",
            state=JobState.QUEUED,
            created="2026-01-01T00:00:00.000000Z",
        )
    )
    keep_versions(store, "job-a", "worker-0", {"torch": "2.7.0"})
    keep_versions(store, "job-a", "worker-0", {"torch": "2.8.0"})
    keep_versions(store, "job-a", "worker-1", {"torch": "2.8.0"})
    assert versions_of(store, "job-a") == {
        "worker-0": {"torch": "2.8.0"},
        "worker-1": {"torch": "2.8.0"},
    }
    assert versions_of(store, "job-b") == {}
