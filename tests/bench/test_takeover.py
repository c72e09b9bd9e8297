"""Runs that a bench submits, follows, takes over and cancels, on a target of the test's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rsctl.bench import cancel as cancel_module
from rsctl.bench import follower as follower_module
from rsctl.bench.active_run import ActiveRun
from rsctl.bench.backoff import Backoff
from rsctl.bench.cancel import cancel_bench, request_cancel
from rsctl.bench.follower import Follower
from rsctl.bench.images import provide_images
from rsctl.bench.live_record import CurrentBench
from rsctl.bench.observer import NullObserver
from rsctl.bench.outcomes import Outcomes
from rsctl.bench.packed import make_pack
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.bench.starter import Sent
from rsctl.bench.submit_thread import SubmitThread
from rsctl.bench.takeover import take_over
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import Event, FindingEvent, StateEvent
from rsctl.runs.unknown_result import ResultUnknown
from rsctl.target_info import target_info
from rsctl.targets.base import Unanswered

from .conftest import at

NO_MACHINES = RsctlError(ExitCode.REFUSED, error("quota", "no machines", "ask for more"))
DENIED = RsctlError(ExitCode.REFUSED, error("denied", "not you"))
LOGGED_OUT = RsctlError(ExitCode.ENVIRONMENT, error("credentials", "log in"))


class Target:
    """Ends runs when the test says so; `problem` is what every call meets."""

    def __init__(self, name: str = "process") -> None:
        self.info = target_info(name)
        self.over: set[str] = set()
        self.cancelled: list[str] = []
        self.collected: list[str] = []
        self.problem: RsctlError | None = None
        self.built: list[str] = []

    def poll(self, run: str) -> bool:
        if self.problem:
            raise self.problem
        return run in self.over

    def cancel(self, run: str) -> None:
        self.cancelled.append(run)
        if self.problem:
            raise self.problem

    def reconcile(self, run: str) -> None:
        self.collected.append(run)
        if self.problem:
            raise self.problem

    def release(self, run: str) -> None:
        """Nothing is held."""

    def have_image(self, submission: Any, show: Any) -> str | None:
        self.built.append(submission.plan.image.tag)
        return f"{submission.plan.image.tag}@sha256:1" if len(self.built) < 3 else None


class Seen(NullObserver):
    """Notes what it is shown."""

    def __init__(self) -> None:
        self.submissions: list[str] = []
        self.ends: list[tuple[str, JobState | None]] = []
        self.findings: list[str] = []
        self.shown: list[Event] = []

    def submitted(self, trial: Trial) -> None:
        self.submissions.append(trial.run)

    def ended(self, trial: Trial, run: RunRecord | None, figures: Mapping[str, Any]) -> None:
        self.ends.append((trial.run, run.state if run else None))

    def finding(self, finding: Finding) -> None:
        self.findings.append(finding.message)

    def events(self, trial: Trial, events: list[Event]) -> None:
        self.shown += events


class Starter:
    """Has the answers that the test gives."""

    def __init__(self) -> None:
        self.problem: RsctlError | None = None
        self.backoff = Backoff(None, 1.0)
        self.answers: list[Sent] = []
        self.is_patient = True
        self.first: list[tuple[int, int]] = []
        self.again: list[tuple[int, int]] = []
        self.prepared = SimpleNamespace(target=Target())

    def answered(self) -> list[Sent]:
        answers, self.answers = self.answers, []
        return answers

    def later(self, sent: Sent, others_run: bool) -> list[Finding] | None:
        assert sent.problem is not None
        if not self.is_patient or not self.backoff.is_about(sent.problem):
            return None
        return [error("quota", "later")]

    def stop(self, problem: RsctlError | None = None) -> None:
        self.problem = problem

    def put_first(self, slot: tuple[int, int]) -> None:
        self.first.append(slot)

    def queue_again(self, slots: Iterable[tuple[int, int]]) -> None:
        self.again += slots


class World:
    """A bench of three repetitions with all that runs it."""

    def __init__(self, store: Store, target: str = "process", fail_fast: bool = False) -> None:
        self.store, self.target, self.seen = store, Target(target), Seen()
        self.trials = [Trial(cell=0, repetition=n, run=f"job-{n}") for n in range(3)]
        record = BenchRecord(
            **{"bench": "b-1", "name": "b", "target": target, "definition": "d", "repeat": 3},
            **{"created": at(0), "cells": [{}], "state": JobState.RUNNING},
        )
        Benches(store).claim(record)
        for trial in self.trials:
            Benches(store).begin("b-1", trial)
        self.current = CurrentBench(store, record)
        self.current.reload()
        self.starter = Starter()
        self.follower = Follower(self.target, store, self.seen, self.current.note)  # type: ignore[arg-type]
        self.outcomes = Outcomes(
            self.current,
            self.starter,
            self.follower,
            self.seen,
            fail_fast,  # type: ignore[arg-type]
        )

    def add(self, number: int, state: str = "running", folder: bool = True) -> str:
        """Record a run of the bench."""
        run, target = f"job-{number}", self.target.info.name
        about = {"name": "job", "target": target, "url": f"{target}://p/r/{run}"}
        self.store.add(RunRecord(run=run, state=JobState.QUEUED, created=at(0), **about))
        if folder:
            description = RunDescription(run=run, target=target, request={}, replicas=["worker-0"])
            RunFolder(run).create(description)
        self.enter(number, state)
        return run

    def enter(self, number: int, state: str, reason: str | None = None) -> None:
        self.store.record(
            f"job-{number}", StateEvent(time=at(5), state=JobState(state), reason=reason)
        )

    def recorded(self, number: int) -> Trial:
        """A trial as the store has it."""
        return self.current.reload().latest()[0, number]

    def active(self, number: int) -> ActiveRun:
        active = self.follower.add(self.trials[number])
        active.poll()
        return active


@pytest.fixture
def world(store: Store) -> World:
    return World(store)


def poll(world: World) -> list[str]:
    """The runs that are over, when each has been polled once."""
    for active in world.follower._active.values():
        active.poll_at = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follower_module, "monotonic", lambda: 0.05)
        return [active.trial.run for active in world.follower.follow(None)]


def test_runs_are_followed_until_they_are_over(world: World) -> None:
    for number in range(3):
        world.add(number, "starting")
        world.follower.add(world.trials[number])
        world.follower.add(world.trials[number])
    assert world.seen.submissions == ["job-0", "job-1", "job-2"]
    assert (len(world.follower), world.follower.running) == (3, 3)
    world.enter(1, "running")
    world.enter(2, "succeeded")
    world.target.over = {"job-2"}
    assert poll(world) == ["job-2"]
    assert len(world.follower) == 2
    assert [world.recorded(n).state for n in range(3)] == [
        *(JobState.STARTING, JobState.RUNNING, JobState.QUEUED),  # an end is recorded elsewhere
    ]
    world.follower.close()
    assert len(world.follower) == 0


@pytest.mark.parametrize(("target", "running"), [("process", 1), ("vertex", 0)])
def test_the_machines_of_a_job_in_a_cloud_are_free_before_its_log_is_here(
    store: Store, target: str, running: int
) -> None:
    world = World(store, target)
    world.add(0, "succeeded")
    active = world.active(0)
    assert not active.is_over
    assert world.follower.running == running


def test_what_prevents_an_answer_is_shown_once(world: World) -> None:
    world.add(0)
    world.follower.add(world.trials[0])
    world.target.problem = DENIED
    assert poll(world) == poll(world) == []
    assert world.seen.findings == ["not you"]


def test_what_prevents_a_cancellation_is_shown_once(world: World) -> None:
    for number in range(2):
        world.add(number)
        world.follower.add(world.trials[number])
    world.target.problem = DENIED
    world.follower.cancel()
    assert len(world.target.cancelled) == 2
    assert world.seen.findings == ["not you"]
    poll(world)
    assert world.seen.findings == ["not you"]


def test_each_run_that_continues_without_an_answer_is_named(world: World) -> None:
    for number in range(2):
        world.add(number)
        world.follower.add(world.trials[number])
        world.target.problem = ResultUnknown(world.store.find(f"job-{number}"), *DENIED.findings)
        poll(world)
    assert len(world.follower) == 0
    assert world.follower.unknown is not None
    why, first, second = world.follower.unknown.findings
    assert (why.message, "job-0" in first.message, "job-1" in second.message) == ("not you", 1, 1)


def test_who_only_watches_asks_no_target(world: World) -> None:
    world.add(0, "failed")
    world.follower.add(world.trials[0])
    world.target.problem = DENIED
    record = world.current.reload()
    record.latest()[0, 0].state = JobState.FAILED
    assert [active.trial.run for active in world.follower.follow(record)] == ["job-0"]
    assert world.seen.findings == []


def test_events_are_shown_and_a_want_of_machines_is_noticed(world: World) -> None:
    world.add(0)
    world.add(1, folder=False)
    active = world.active(0)
    finding = FindingEvent(time=at(1), finding=error("stock-out", "none left"), replica=None)
    RunFolder("job-0").states.write_bytes(msgspec.json.encode(finding) + b"\n")
    assert not active.lacked_machines
    world.target.over = {"job-0"}
    active.poll()
    assert active.read() == [finding]
    assert active.lacked_machines
    assert active.read() == []
    assert world.active(1).read() == []
    active.close()


def test_a_run_is_asked_to_end_again_and_again_until_it_has(world: World) -> None:
    world.add(0)
    active = world.active(0)
    for now in (1.0, 5.9, 6.0, 7.0, 11.0):
        active.cancel(now)
    assert len(world.target.cancelled) == 3
    world.target.problem = DENIED
    assert active.cancel(99.0) == active.poll() == [*DENIED.findings]
    world.target.problem = None
    world.enter(0, "cancelled")
    active.poll()
    active.cancel(999.0)
    assert len(world.target.cancelled) == 4


def test_the_end_of_a_run_is_recorded_by_who_drives(world: World) -> None:
    world.add(0, "succeeded")
    world.outcomes.ended(world.active(0), is_driver=False)
    assert world.recorded(0).state is JobState.QUEUED
    world.outcomes.ended(world.active(0), is_driver=True)
    trial = world.recorded(0)
    assert (trial.state, trial.exit_code, trial.reason) == (JobState.SUCCEEDED, 0, None)
    gone = ActiveRun(world.trials[1], world.target, world.store)  # type: ignore[arg-type]
    world.outcomes.ended(gone, is_driver=True)
    trial = world.recorded(1)
    assert (trial.state, trial.exit_code) == (JobState.FAILED, 1)
    assert trial.reason == "it is no longer in the store"
    assert world.seen.ends[-1] == ("job-1", None)
    assert not world.outcomes.must_stop


def lacking(world: World, attempt: int = 0, code: str = "quota") -> ActiveRun:
    """A run that ended for want of machines."""
    world.trials[0].attempt = attempt
    world.add(0, "failed")
    finding = FindingEvent(time=at(1), finding=error(code, "no"), replica=None)
    RunFolder("job-0").states.write_bytes(msgspec.json.encode(finding) + b"\n")
    world.target.over = {"job-0"}
    active = world.active(0)
    active.read()
    return active


@pytest.mark.parametrize(
    ("attempt", "code", "is_driver", "change", "again"),
    [
        (0, "quota", True, None, True),
        (1, "quota", True, None, True),
        (2, "quota", True, None, False),
        (0, "crash", True, None, False),
        (0, "quota", False, None, False),
        (0, "quota", True, "cancelled", False),
        (0, "quota", True, "stopped", False),
    ],
)
def test_a_run_that_got_no_machines_is_tried_three_times(
    store: Store, attempt: int, code: str, is_driver: bool, change: str | None, again: bool
) -> None:
    world = World(store, fail_fast=True)
    world.outcomes.is_cancelled = change == "cancelled"
    world.starter.problem = DENIED if change == "stopped" else None
    world.outcomes.ended(lacking(world, attempt, code), is_driver)
    assert world.starter.first == ([(0, 0)] if again else [])
    assert world.outcomes.must_stop is not again
    assert world.starter.backoff.is_over(float("-inf")) is False


class PackedWorld(World):
    """A bench whose repetitions are slots of packed jobs."""

    def end(self, job: str, state: str, begun: Collection[int] = (), **how: Any) -> None:
        """A job of the remaining repetitions is over; slots without results have `begun`."""
        left = [number for _, number in self.current.pending()]
        slots = [Trial(cell=0, repetition=n, run=f"{job}-s{n}") for n in left]
        for trial in slots:
            Benches(self.store).begin("b-1", trial)
        self.current.reload()
        about = {"name": "job", "target": "process", "url": f"process://{job}", "created": at(0)}
        plan = {"pools": [{"role": "worker", "count": 1}]}
        self.store.add(RunRecord(run=job, state=JobState.QUEUED, plan=plan, **about))
        self.store.record(job, StateEvent(time=at(5), state=JobState(state), **how))
        active = ActiveRun(make_pack(job, slots), self.target, self.store)  # type: ignore[arg-type]
        active.poll()
        assert active.progress is not None
        active.progress.has_begun.update(begun)
        self.outcomes.ended(active, is_driver=True)

    @property
    def ends(self) -> list[tuple[int, str, str | None]]:
        """The repetitions of the bench's record, and how they have ended."""
        return [(t.repetition, t.state.value, t.reason) for t in self.current.reload().trials]


@pytest.fixture
def packed(store: Store) -> PackedWorld:
    world = PackedWorld(store)
    for trial in world.trials:
        world.current.drop(trial)
    return world


def test_a_user_who_cancels_a_packed_job_cancels_its_rest(packed: PackedWorld) -> None:
    packed.end("a-aaaaaa", "cancelled", begun=[0], reason="by a user")
    assert packed.ends == [(0, "cancelled", "by a user")]
    assert (packed.starter.again, packed.seen.findings) == ([], [])


def test_a_packed_job_that_its_service_has_restarted_runs_again(packed: PackedWorld) -> None:
    """The driver cancels it, since it would run all of its slots twice."""
    packed.end("a-aaaaaa", "cancelled", begun=[0], reason="restarted", attempt=2)
    assert (packed.ends, packed.starter.again) == ([], [(0, 0), (0, 1), (0, 2)])
    assert packed.seen.findings == [
        "a-aaaaaa has not run 3 of its slots (restarted): they run in another job"
    ]


def test_slots_whose_end_is_not_in_the_log_have_failed(packed: PackedWorld) -> None:
    packed.end("a-aaaaaa", "succeeded", begun=[0, 1, 2])
    reason = "its job's log does not have its end"
    assert packed.ends == [(number, "failed", reason) for number in range(3)]
    assert packed.starter.again == []


def test_a_packed_job_that_ends_before_its_first_slot_has_failed(packed: PackedWorld) -> None:
    packed.end("a-aaaaaa", "failed", reason="no image")
    assert packed.ends == [(number, "failed", "no image") for number in range(3)]
    assert packed.starter.again == []


@pytest.mark.parametrize(
    ("how", "reason"),
    [({"attempt": 2}, "its machines were taken 3 times"), ({}, "taken")],
)
def test_slots_of_three_jobs_that_were_taken_have_failed(
    packed: PackedWorld, how: Any, reason: str
) -> None:
    """The slots that had begun; the others run in another job."""
    for number in range(3):
        packed.end(f"a-aaaaa{number}", "failed", begun=[0], reason="taken", **how)
        assert packed.ends == ([] if number < 2 else [(0, "failed", reason)])
    rest = [(0, 1), (0, 2)]
    assert packed.starter.again == [(0, 0), *rest, (0, 0), *rest, *rest]
    packed.end("a-aaaaa3", "failed", begun=[1], reason="taken", **how)
    assert len(packed.ends) == 1  # the count begins again


@pytest.mark.parametrize("change", ["cancelled", "stopped", "failed"])
def test_the_rest_of_a_packed_job_does_not_run_in_a_bench_that_ends(
    packed: PackedWorld, change: str
) -> None:
    packed.outcomes.is_cancelled = change == "cancelled"
    packed.outcomes.must_stop = change == "failed"
    packed.starter.problem = DENIED if change == "stopped" else None
    packed.end("a-aaaaaa", "failed", begun=[0], reason="taken")
    assert (packed.ends, packed.starter.again) == ([], [])


@pytest.mark.parametrize("fail_fast", [False, True])
def test_a_refusal_is_the_end_of_its_trial(store: Store, fail_fast: bool) -> None:
    world = World(store, fail_fast=fail_fast)
    world.add(0, "queued")
    world.starter.answers = [Sent(world.trials[0], DENIED), Sent(world.trials[1], None)]
    world.outcomes.take_answers()
    trial = world.recorded(0)
    assert (trial.state, trial.exit_code) == (JobState.FAILED, int(ExitCode.REFUSED))
    assert "not you" in (trial.reason or "")
    assert world.store.find("job-0").state is JobState.FAILED
    assert world.seen.ends == [("job-0", JobState.FAILED)]
    assert world.seen.findings == ["not you"]
    assert world.seen.submissions == ["job-1"]
    assert world.starter.problem is None
    assert world.outcomes.must_stop is fail_fast


def test_without_credentials_nothing_more_is_started(world: World) -> None:
    world.add(0, "queued")
    world.starter.answers = [Sent(world.trials[0], LOGGED_OUT)]
    world.outcomes.take_answers()
    assert world.starter.problem is LOGGED_OUT


def test_a_refusal_for_want_of_machines_waits_unless_the_bench_is_cancelled(world: World) -> None:
    for number in range(2):
        world.add(number, "queued")
    world.starter.answers = [Sent(world.trials[0], NO_MACHINES)]
    world.outcomes.take_answers()
    assert world.recorded(0).state is JobState.QUEUED
    assert world.seen.findings == ["later"]
    world.outcomes.is_cancelled = True
    world.starter.answers = [Sent(world.trials[1], NO_MACHINES)]
    world.outcomes.take_answers()
    trial = world.recorded(1)
    assert (trial.state, trial.exit_code) == (JobState.CANCELLED, int(JobState.CANCELLED.exit_code))


def test_who_takes_over_follows_and_records_and_sends_what_was_not_sent(store: Store) -> None:
    world = World(store, "vertex")
    world.add(0, "running")
    world.add(1, "failed")
    world.target.over = {"job-1"}
    unsent = take_over(world.current, world.follower, world.outcomes)
    assert [trial.run for trial in unsent] == ["job-2"]
    assert len(world.follower) == 1
    assert world.recorded(1).state is JobState.FAILED
    assert (0, 1, 0) in world.current.retried
    assert (0, 0, 0) not in world.current.retried


@pytest.mark.parametrize(
    ("target", "problem", "asked"),
    [("vertex", None, 2), ("vertex", DENIED, 2), ("vertex", LOGGED_OUT, 1), ("process", None, 0)],
)
def test_a_log_that_could_not_be_read_as_its_run_ended_is_read_by_the_next_command(
    store: Store, target: str, problem: RsctlError | None, asked: int
) -> None:
    world = World(store, target)
    world.target.problem = problem
    for number in range(3):
        world.add(number, "failed" if number == 2 else "succeeded")
        world.current.conclude(world.trials[number], store.find(f"job-{number}").state, 0, None)
    take_over(world.current, world.follower, world.outcomes)
    assert world.target.collected == ["job-0", "job-1"][:asked]
    assert world.seen.findings == ([problem.findings[0].message] if problem else [])


@pytest.mark.parametrize(
    ("target", "state", "is_located", "is_unsent"),
    [
        ("vertex", "queued", False, True),
        ("vertex", "queued", True, False),
        ("vertex", "failed", False, False),
        ("process", "queued", False, False),
    ],
)
def test_a_job_in_a_cloud_without_a_name_there_may_not_have_been_sent(
    store: Store, target: str, state: str, is_located: bool, is_unsent: bool
) -> None:
    world = World(store, target)
    run = world.add(0, state)
    if not is_located:
        store.locate(run, f"{target}://{run}")
    unsent = take_over(world.current, world.follower, world.outcomes)
    assert (run in [trial.run for trial in unsent]) is is_unsent


def submission(tag: str | None = None) -> Any:
    image = SimpleNamespace(tag=tag)
    return SimpleNamespace(plan=SimpleNamespace(run="job-9", image=image))


@pytest.mark.parametrize(
    ("raised", "code"),
    [(None, None), (Unanswered("job-9", DENIED), None), (DENIED, "denied"), (KeyError("x"), "bug")],
)
def test_a_submission_ends_with_an_answer(
    monkeypatch: pytest.MonkeyPatch, raised: Exception | None, code: str | None
) -> None:
    """Where that is lost, there may be a job."""
    go = threading.Event()

    class Slow(Target):
        def submit(self, submission: Any, record: Callable[[], None], show: Any) -> None:
            assert go.wait(30)
            if raised:
                raise raised

    rate = SimpleNamespace(names=[], sent=lambda name: rate.names.append(name))
    thread = SubmitThread(Slow(), submission(), [], rate)  # type: ignore[arg-type]
    assert not thread.done
    go.set()
    thread.wait()
    assert thread.done
    assert rate.names == ["job-9"]
    found = thread.problem.findings[0].code if thread.problem else None
    assert found == code
    if code == "bug":
        assert thread.problem is not None
        message = thread.problem.findings[0].message
        assert message == "the submission failed unexpectedly: KeyError: 'x'"


def test_each_image_is_provided_once() -> None:
    target = Target()
    cells = [SimpleNamespace(submission=submission(tag)) for tag in ("a", None, "b", "a", "c", "d")]
    known = {"b": "x/b@sha256:9", "c": "x/c:1"}
    found = list(provide_images(target, cells, known, lambda _: None))  # type: ignore[arg-type]
    assert target.built == ["a", "c", "d"]
    assert found == [("a", "a@sha256:1"), ("c", "c@sha256:1")]  # d needs none


class Cancelling(Target):
    """Runs end at the poll after they were asked to, if they do."""

    def __init__(self, store: Store, ends: bool = True) -> None:
        super().__init__()
        self.store, self.ends = store, ends

    def reconcile(self, run: str) -> None:
        if self.ends and run in self.cancelled:
            self.store.record(run, StateEvent(time=at(9), state=JobState.CANCELLED, reason="asked"))


def test_all_runs_of_a_bench_are_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    target = Cancelling(world.store)
    monkeypatch.setattr(cancel_module, "get", lambda _: target)
    monkeypatch.setattr(cancel_module, "sleep", lambda _: None)
    world.add(0)
    world.add(1, "failed")
    bench = cancel_bench(world.store, world.current.record, 60.0)
    assert target.cancelled == ["job-0"]
    assert (bench.state, bench.ended is not None) == (JobState.CANCELLED, True)
    assert [(t.state, t.exit_code, t.reason) for t in bench.latest().values()] == [
        (JobState.CANCELLED, int(JobState.CANCELLED.exit_code), "asked"),
        (JobState.FAILED, 1, None),
        (JobState.CANCELLED, int(JobState.CANCELLED.exit_code), "it was never submitted"),
    ]


def test_runs_that_do_not_end_are_asked_every_five_seconds_and_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Cancelling(world.store, ends=False)
    clock = [100.0]
    monkeypatch.setattr(cancel_module, "get", lambda _: target)
    monkeypatch.setattr(cancel_module, "monotonic", lambda: clock[0])
    monkeypatch.setattr(cancel_module, "sleep", lambda s: clock.__setitem__(0, clock[0] + s))
    world.add(0)
    with pytest.raises(RsctlError) as caught:
        cancel_bench(world.store, world.current.record, 11.0)
    assert caught.value.exit_code == ExitCode.TIMED_OUT
    message = "runs of b-1 have not ended after 11 s"
    remedy = "they have been asked to end: rsctl bench status b-1"
    assert caught.value.findings == (error("cancel", message, remedy),)
    assert len(target.cancelled) == 3
    assert world.current.reload().state is JobState.CANCELLING


def test_only_runs_that_go_on_are_asked_to_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Cancelling(world.store)
    monkeypatch.setattr(cancel_module, "get", lambda _: target)
    world.add(0)
    world.add(1, "succeeded")
    world.trials[2].state = JobState.FAILED
    world.current.note(world.trials[2])
    world.add(2)
    request_cancel(world.store, world.current.record)
    assert target.cancelled == ["job-0"]


@pytest.mark.parametrize(("problem", "asked"), [(DENIED, 3), (LOGGED_OUT, 1)])
def test_each_run_that_cannot_be_cancelled_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, problem: RsctlError, asked: int
) -> None:
    """Without credentials the cloud is asked once."""
    monkeypatch.setattr(cancel_module, "get", lambda _: world.target)
    world.target.problem = problem
    for number in range(3):
        world.add(number)
    with pytest.raises(RsctlError) as caught:
        request_cancel(world.store, world.current.record)
    assert len(world.target.cancelled) == asked
    assert caught.value.exit_code is problem.exit_code
    why, *runs = caught.value.findings
    assert why == problem.findings[0]
    assert [f"job-{n}" in run.message for n, run in enumerate(runs)] == [True] * 3


def test_each_run_whose_end_cannot_be_read_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel_module, "get", lambda _: world.target)
    monkeypatch.setattr(world.target, "cancel", lambda run: None)
    world.target.problem = LOGGED_OUT
    for number in range(3):
        world.add(number)
    with pytest.raises(RsctlError) as caught:
        cancel_bench(world.store, world.current.record, 60.0)
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    why, *runs = caught.value.findings
    assert why == LOGGED_OUT.findings[0]
    assert [f"job-{n}" in run.message for n, run in enumerate(runs)] == [True] * 3


def test_a_bench_that_was_forgotten_meanwhile(world: World) -> None:
    with world.store.transaction() as db:
        db.execute("DELETE FROM benches")
    with pytest.raises(RsctlError, match="b-1 was forgotten while it ran") as caught:
        world.current.reload()
    assert caught.value.exit_code == ExitCode.USAGE


def test_what_is_recorded_of_a_bench(world: World) -> None:
    world.current.add_image("t", "t@sha256:1")
    world.current.enter(JobState.RUNNING)
    found = world.current.reload()
    assert (found.images, found.state, found.ended) == ({"t": "t@sha256:1"}, JobState.RUNNING, None)
    world.current.enter(JobState.FAILED)
    assert world.current.record.state is JobState.FAILED
    assert world.current.reload().ended is not None
    assert len(world.current.unfinished()) == 3
    world.current.conclude(world.trials[0], JobState.FAILED, 3, "why")
    world.current.reload()
    assert len(world.current.unfinished()) == 2
    assert world.current.pending() == []
    world.current.retry(world.trials[0])
    assert world.current.pending() == [(0, 0)]
