"""A run whose cloud tells its state, its log or both no longer: its job continues and is billed."""

from __future__ import annotations

import pytest
from msgspec import structs

from rsctl.api import Run
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs.stream.events import FindingEvent
from rsctl.runs.unknown_result import ResultUnknown
from rsctl.targets.managed.service import JobStatus

from .conftest import FakeCloud, FakeTarget, at, followed, line, reported, stored

EXPIRED = RsctlError(
    ExitCode.ENVIRONMENT, error("credentials-expired", "the token has expired", "log in")
)
DENIED = RsctlError(ExitCode.REFUSED, error("denied", "no logging.logEntries.list", "ask for it"))
ENDLESS = 1 << 30


@pytest.fixture(autouse=True)
def _running(cloud: FakeCloud) -> None:
    cloud.status = JobStatus(state=JobState.RUNNING, time=at(1))
    cloud.lines = [line(2, "worker-0", "loss=1")]


def refusal(target: FakeTarget, run: str) -> ResultUnknown:
    with pytest.raises(ResultUnknown) as caught:
        followed(target, run)
    assert caught.value.exit_code is ExitCode.RESULT_UNKNOWN
    return caught.value


def test_a_state_that_may_no_longer_be_read_is_an_unknown_result(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.refused["status"] = EXPIRED
    why, unknown = refusal(target, run).findings
    assert (why.message, why.remedy) == ("the token has expired", "log in")
    assert unknown.code == "result-unknown"
    assert unknown.message == (
        "the result of t-aaaaaa is unknown; its job was accepted, continues, and is billed: "
        "vertex://p/r/7"
    )
    assert unknown.remedy == ("watch it: rsctl logs -f t-aaaaaa   cancel it: rsctl cancel t-aaaaaa")
    assert not stored(run).state.is_final


def test_a_job_whose_answer_was_lost_may_not_exist(run: str) -> None:
    lost = structs.replace(stored(run), url=f"vertex://{run}")
    assert ResultUnknown(lost).findings[-1].message == (
        "the result of t-aaaaaa is unknown; its job, if the cloud has accepted it, continues, and "
        "is billed"
    )


def test_a_cloud_that_is_out_of_reach_for_long_is_an_unknown_result(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.unreachable = ENDLESS
    why, unknown = refusal(target, run).findings
    assert (why.code, unknown.code) == ("network", "result-unknown")
    assert why.remedy == "check the network and the cloud's status page"


@pytest.mark.parametrize("times", [1, 2])
def test_a_refusal_that_passes_is_no_end(
    cloud: FakeCloud, target: FakeTarget, run: str, times: int
) -> None:
    """Such as after a login in another terminal."""
    cloud.refused["status"] = EXPIRED
    ask = cloud.call

    def call(name: str) -> None:
        try:
            ask(name)
        finally:
            if cloud.calls.count("status") == times:
                cloud.refused.clear()
                cloud.end(JobState.SUCCEEDED)

    cloud.call = call  # type: ignore[method-assign]
    assert reported(followed(target, run))[-1] == "job succeeded"


def test_the_state_is_watched_without_the_log(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.refused["log"] = DENIED
    events = []
    for batch in target.events(run, {}, follow=True):
        events += batch
        if any(isinstance(event, FindingEvent) for event in events):
            cloud.end(JobState.SUCCEEDED)
    [finding] = [event.finding for event in events if isinstance(event, FindingEvent)]
    assert (finding.severity, finding.code) == ("warning", "log-refused")
    assert finding.message == (
        "the log cannot be read: no logging.logEntries.list; rsctl watches the state alone"
    )
    assert finding.remedy == "ask for it"
    assert reported(events)[-1] == "job succeeded"
    assert stored(run).state is JobState.SUCCEEDED


def test_the_state_is_watched_without_the_log_from_its_last_lines_on(
    cloud: FakeCloud, target: FakeTarget, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `watch` does."""
    monkeypatch.setattr("rsctl.api.events.get", lambda _: target)
    cloud.refused["log"] = DENIED
    cloud.end(JobState.SUCCEEDED)
    batches = Run(stored(run)).event_batches(5, lambda _: True)
    told = reported([event for batch in batches for event in batch])
    assert {"job succeeded", "job finding log-refused"} <= {*told}


def test_a_log_that_may_be_read_later_is_collected_then(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.refused["log"] = DENIED
    cloud.end(JobState.SUCCEEDED)
    assert "02 worker-0: loss=1" not in reported(followed(target, run))
    with pytest.raises(RsctlError, match=r"no logging\.logEntries\.list"):
        target.collect(run)
    target.release(run)
    cloud.refused.clear()
    target.collect(run)
    target.release(run)
    told = reported(followed(target, run))
    assert "02 worker-0: loss=1" in told
    assert told.count("job succeeded") == 1


def test_a_caller_that_asks_a_silent_cloud_once_has_what_is_here(
    cloud: FakeCloud, target: FakeTarget, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as `logs` without a network."""
    monkeypatch.setenv("RSCTL_CLOUD_PACE", "0.01")
    target.collect(run)
    target.release(run)
    cloud.unreachable = ENDLESS
    events = [event for batch in target.events(run, {}, follow=False) for event in batch]
    assert stored(run).state is JobState.RUNNING
    warned, *_, text = reported(events)
    assert (warned, text) == ("job finding network", "02 worker-0: loss=1")


def test_a_caller_that_asks_a_silent_cloud_for_the_state_hears_of_it(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    """Such as `status` without a network."""
    cloud.unreachable = 1
    with pytest.raises(RsctlError) as caught:
        target.reconcile(run)
    assert (caught.value.exit_code, caught.value.findings[0].code) == (3, "network")
    target.reconcile(run)
    target.release(run)


def test_a_caller_that_asks_once_hears_of_it_at_once(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    cloud.refused["status"] = EXPIRED
    with pytest.raises(RsctlError) as caught:
        target.reconcile(run)
    assert caught.value is EXPIRED
    target.release(run)


def test_who_waits_for_the_end_hears_that_it_is_unknown(
    cloud: FakeCloud, target: FakeTarget, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsctl.api.reconcile.get", lambda _: target)
    monkeypatch.setattr("rsctl.api.run_handle.get", lambda _: target)
    cloud.refused["status"] = EXPIRED
    with pytest.raises(ResultUnknown):
        list(Run(stored(run)).watch())
