"""When a tracker that fails is tried again, by a clock that only the waiting moves."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest

from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.findings import JobState
from rsctl.job.tracking import PlannedTracker
from rsctl.results.tracking import choice, process
from rsctl.results.tracking.cursor import CursorFile
from rsctl.runs.folder import RunFolder
from rsctl.runs.store import Store
from rsctl.runs.stream.events import StateEvent
from rsctl.runs.tracker import MetricPoint, Result, State, TrackerError
from tests.results.tracking.conftest import TrackedJob, at


def end_job() -> None:
    """End the run, with a store of the thread's own."""
    event = StateEvent(time=at(50), state=JobState.SUCCEEDED, exit_code=0)
    store = Store()
    store.record("job-a", event)
    store.close()


class Down:
    """A tracker that cannot be reached, with its clock; `happen` is called at the second `due`, and
    `when_tried` with the number of each try.
    """

    seconds_between, takes_files = 0.0, False

    def __init__(self, due: float = 0.0) -> None:
        self.second, self.due = 0.0, due
        self.happen: Callable[[], object] = end_job
        self.tries: list[float] = []
        self.when_tried: Callable[[int], object] = lambda number: None

    def monotonic(self) -> float:
        return self.second

    def sleep(self, seconds: float) -> None:
        before, self.second = self.second, round(self.second + seconds, 6)
        assert self.second < 200, "waits forever"
        if before < self.due <= self.second:
            self.happen()

    def begin(self, state: State) -> None:
        self.tries.append(self.second)
        self.when_tried(len(self.tries))
        raise TrackerError("down")

    def send(self, points: Sequence[MetricPoint], state: State) -> None:
        raise AssertionError

    def end(self, result: Result, state: State) -> None:
        raise AssertionError


@pytest.fixture
def make_down(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Down]:
    """Makes the tracker of a run in progress."""

    def make(due: float = 0.0) -> Down:
        made = Down(due)
        monkeypatch.setattr(choice, "open_tracker", lambda *_: made)
        monkeypatch.setattr(process, "monotonic", made.monotonic)
        monkeypatch.setattr(process, "sleep", made.sleep)
        TrackedJob(PlannedTracker(kind="mlflow", location="https://x"))
        return made

    return make


def test_a_tracker_is_tried_ever_more_rarely_and_twice_after_the_end(
    make_down: Callable[..., Down],
) -> None:
    down = make_down(due=90.0)
    process.send("job-a", follow=True)
    assert down.tries == [0, 1, 3, 8, 18, 48, 78, 90, 91]
    assert CursorFile("job-a", 0).read().problem == "down"


def test_a_run_that_ends_during_a_try_does_not_wait_for_the_next(
    make_down: Callable[..., Down],
) -> None:
    """A try can take a minute."""
    down = make_down()
    down.when_tried = lambda number: end_job() if number == 5 else None
    process.send("job-a", follow=True)
    assert down.tries == [0, 1, 3, 8, 18, 18, 19]


def test_a_command_that_follows_no_run_tries_once(make_down: Callable[..., Down]) -> None:
    down = make_down()
    process.send("job-a", follow=False)
    assert down.tries == [0]


class Up(Down):
    """A tracker that takes everything."""

    def begin(self, state: State) -> None:
        pass


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch) -> Up:
    made = Up()
    monkeypatch.setattr(choice, "open_tracker", lambda *_: made)
    monkeypatch.setattr(process, "monotonic", made.monotonic)
    monkeypatch.setattr(process, "sleep", made.sleep)
    return made


@pytest.mark.parametrize(("released", "seconds"), [(None, 15), (40.0, 55)])
def test_a_run_in_progress_that_no_process_watches_is_left_after_a_while(
    up: Up, released: float | None, seconds: float
) -> None:
    TrackedJob(PlannedTracker(kind="mlflow", location="https://x"))
    if released is not None:
        lock = RunFolder("job-a").lock()
        up.due, up.happen = released, lambda: os.close(lock)
    process.send("job-a", follow=True)
    assert seconds <= up.second < seconds + 0.5


def test_a_run_that_ends_during_a_slow_call_is_sent_to_its_end(
    up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bench the calls of other runs come before it, too."""
    TrackedJob(PlannedTracker(kind="mlflow", location="https://x"))
    lock, ends = RunFolder("job-a").lock(), list[Result]()

    def begin(_: State) -> None:
        up.sleep(20)
        end_job()
        assert lock is not None
        os.close(lock)

    monkeypatch.setattr(up, "begin", begin)
    monkeypatch.setattr(up, "end", lambda result, _: ends.append(result))
    process.send("job-a", follow=True)
    assert [end.state for end in ends] == [JobState.SUCCEEDED]
    assert CursorFile("job-a", 0).read().is_complete


@pytest.mark.parametrize(
    ("state", "released", "seconds"),
    [(JobState.RUNNING, None, 15), (JobState.RUNNING, 40.0, 55), (JobState.SUCCEEDED, 40.0, 0)],
)
def test_the_runs_of_a_bench_are_sent_until_it_ends_or_no_process_drives_it(
    monkeypatch: pytest.MonkeyPatch,
    up: Up,
    state: JobState,
    released: float | None,
    seconds: float,
) -> None:
    sent: list[tuple[str, bool]] = []
    monkeypatch.setattr(process, "send", lambda run, follow: sent.append((run, follow)))
    jobs = [
        TrackedJob(PlannedTracker(kind="mlflow", location="https://x"), f"job-{n}") for n in "ab"
    ]
    trials = [Trial(cell=0, repetition=n, run=job.run) for n, job in enumerate(jobs)]
    trials.append(Trial(cell=0, repetition=2, run="job-gone"))
    bench = BenchRecord(
        bench="b-bench", name="b", target="process", definition="d", created=at(0), cells=[{}],
        state=state, trials=trials,
    )  # fmt: skip
    Benches(jobs[0].store).claim(bench)
    for trial in trials:
        Benches(jobs[0].store).begin(bench.bench, trial)
    BenchFolder("b-bench").path.mkdir(parents=True)
    lock = BenchFolder("b-bench").lock() if released is not None else None
    if released is not None and lock is not None:
        up.due, up.happen = released, lambda: os.close(lock)
    process.send_bench("b-bench")
    assert sorted(sent) == [("job-a", True), ("job-b", True)]
    assert seconds <= up.second < seconds + 0.5
