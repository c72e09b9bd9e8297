"""How often the server brings runs up to date, by a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Event

import pytest

from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error, warning
from rsctl.runs.records import RunRecord
from rsctl.ui import keeper
from rsctl.ui.keeper import Keeper
from tests.cli.conftest import MadeRun
from tests.results.report.conftest import Make

STALE = (warning("x", "no answer"),)


class Stop(Event):
    """The event that ends the keeper: waiting advances the time, and sets it at the end."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self.time, self.end = 0.0, end

    def wait(self, timeout: float | None = None) -> bool:
        self.time += timeout or 0
        if self.time > self.end:
            self.set()
        return self.is_set()


def kept(
    monkeypatch: pytest.MonkeyPatch, seconds: float, answer: Callable[[str], tuple[Finding, ...]]
) -> tuple[list[tuple[float, str]], Keeper]:
    """When the keeper has asked about which run, in this time."""
    asked: list[tuple[float, str]] = []
    made, stop = Keeper(), Stop(seconds)
    made.stop = stop

    def reconcile(runs: Iterable[RunRecord], on_outdated: Callable[..., None]) -> None:
        for run in runs:
            asked.append((stop.time, run.run))
            if found := answer(run.run):
                on_outdated(run.run, found)

    monkeypatch.setattr(keeper, "reconcile_all", reconcile)
    monkeypatch.setattr(keeper, "monotonic", lambda: stop.time)
    made.start()
    assert Event.wait(stop, 60)
    made.close(60)
    return asked, made


@pytest.mark.parametrize(("target", "pause"), [("process", 1), ("compose", 1), ("vertex", 20)])
def test_a_cloud_is_asked_less_often_than_this_machine(
    make_run: Make, monkeypatch: pytest.MonkeyPatch, target: str, pause: int
) -> None:
    make_run("job-bbbbbb", 1).succeed(9)
    MadeRun("job-aaaaaa", target=target).state(1, JobState.RUNNING)
    asked, made = kept(monkeypatch, 41, lambda _: ())
    assert asked == [(float(second), "job-aaaaaa") for second in range(1, 42, pause)]
    assert made.outdated == {}


def test_why_a_run_may_be_out_of_date_is_kept_until_it_is_not(
    make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run("job-aaaaaa")
    make_run("job-bbbbbb")
    answers = {"job-aaaaaa": iter([STALE, STALE, ()]), "job-bbbbbb": iter([STALE, (), STALE])}
    _, made = kept(monkeypatch, 3, lambda run: next(answers[run]))
    assert made.outdated == {"job-bbbbbb": STALE}


def test_a_store_that_fails_is_tried_again(make_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run()
    failed: list[str] = []

    def answer(run: str) -> tuple[Finding, ...]:
        if not failed:
            failed.append(run)
            raise RsctlError(ExitCode.ENVIRONMENT, error("store", "locked"))
        return ()

    assert [time for time, _ in kept(monkeypatch, 3, answer)[0]] == [1, 2, 3]


def test_it_ends_between_two_runs(make_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run("job-aaaaaa")
    make_run("job-bbbbbb")
    ended: list[str] = []
    made = Keeper()

    def reconcile(runs: list[RunRecord], _on_outdated: object) -> None:
        ended.append(runs[0].run)
        made.stop.set()

    monkeypatch.setattr(keeper, "reconcile_all", reconcile)
    monkeypatch.setattr(keeper, "_POLL_SECONDS", 0.0)
    made.start()
    assert made.stop.wait(60)
    made.close(60)
    assert len(ended) == 1
