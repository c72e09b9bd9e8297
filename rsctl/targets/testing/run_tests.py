"""Tests of the runs of a target."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import msgspec
import pytest
from msgspec.structs import replace

from rsctl.findings import JobState
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Cursor, Event, LogEvent
from rsctl.targets.base import AdoptingTarget, Submission, Target, new_run
from rsctl.targets.testing.suite import (
    FAIL,
    LINES,
    LOSS,
    WAIT,
    Suite,
    flat,
    ignore,
    job_states,
    log_lines,
    stored,
    texts,
)


class RunTests(Suite):
    """From the submission to the end."""

    def test_a_run_to_its_end(self, plan: Callable[..., Submission], target: Target) -> None:
        """The events of a run end with it, with each line once; then all of it is here."""
        run = self.submit(target, plan())
        events = self.follow(target, run)
        assert texts(events) == [f"line {number}" for number in range(LINES)]
        assert len({(e.replica, e.id) for e in log_lines(events)}) == LINES
        assert job_states(events)[-1] is JobState.SUCCEEDED
        assert not any(state.is_final for state in job_states(events)[:-1])
        assert stored(run).state is JobState.SUCCEEDED
        assert stored(run).exit_code == 0
        self.wait(lambda: target.poll(run), "poll to have all of it")
        target.collect(run)
        target.reconcile(run)
        assert stored(run).state is JobState.SUCCEEDED
        assert texts(flat(target.events(run, {}, follow=False))) == texts(events)
        last = [event for event in events if isinstance(event, LogEvent)][-2:]
        tail = flat(target.events(run, target.tail(run, 2), follow=False))
        assert [event for event in tail if isinstance(event, LogEvent)][-2:] == last
        target.release(run)

    def test_a_run_that_fails(self, plan: Callable[..., Submission], target: Target) -> None:
        """A job that fails is not an error of the target."""
        run = self.submit(target, plan(FAIL))
        events = self.follow(target, run)
        assert texts(events) == ["line 0"]
        assert job_states(events)[-1] is JobState.FAILED
        assert (stored(run).state, stored(run).exit_code) == (JobState.FAILED, 1)

    def test_reading_goes_on_from_a_cursor(
        self, plan: Callable[..., Submission], target: Target
    ) -> None:
        """A cursor is JSON; from any of them on no line is lost or repeated."""
        run = self.submit(target, plan())
        since: Cursor = {}
        seen: list[str] = []
        is_over = False
        while not is_over:
            is_over = True
            batches = target.events(run, since, follow=True)
            for batch in self.within(batches):
                seen += texts(batch)
                if texts(batch):  # stop here, and continue with another reader
                    is_over = False
                    break
            batches.close()  # type: ignore[attr-defined]
            since = json.loads(json.dumps(since))
        assert seen == [f"line {number}" for number in range(LINES)]

    def test_a_second_submission_finds_the_job(
        self, plan: Callable[..., Submission], target: Target
    ) -> None:
        """A run has one job, however often it is submitted."""
        submission = plan()
        run = self.submit(target, submission)
        self.submit(target, submission)
        assert texts(self.follow(target, run)) == [f"line {number}" for number in range(LINES)]

    def test_a_run_is_recorded_before_it_starts(
        self, plan: Callable[..., Submission], target: Target
    ) -> None:
        """Nothing is started for a run that cannot be recorded."""
        submission = plan()
        calls = []

        def record() -> None:
            calls.append(submission.plan.run)
            raise _NoRecordError

        with pytest.raises(_NoRecordError):
            target.submit(submission, record, ignore)
        assert calls == [submission.plan.run]
        run = self.submit(target, submission)  # what was begun is not in the way
        assert texts(self.follow(target, run)) == [f"line {number}" for number in range(LINES)]

    def test_cancel(self, plan: Callable[..., Submission], target: Target) -> None:
        """It returns at once; a second call, or one after the end, does no harm."""
        run = self.submit(target, plan(WAIT))
        batches = target.events(run, {}, follow=True)
        events: list[Event] = []
        for batch in self.within(batches):
            events += batch
            if texts(events):
                break
        self.cancel(target, run)
        self.cancel(target, run)
        for batch in self.within(batches):
            events += batch
        assert texts(events) == ["line 0"]
        assert job_states(events)[-1] is JobState.CANCELLED
        self.cancel(target, run)
        assert stored(run).state is JobState.CANCELLED

    def test_a_run_whose_submission_was_killed(
        self, plan: Callable[..., Submission], target: Target
    ) -> None:
        """It is not left to be queued forever."""
        submission = plan()
        child = os.fork()
        if child == 0:  # pragma: no cover - it is killed
            try:
                target.submit(submission, lambda: _record_and_die(submission), ignore)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        run = submission.plan.run
        assert stored(run).state is JobState.QUEUED
        target.reconcile(run)
        assert stored(run).state is JobState.FAILED
        target.release(run)

    def test_metrics_are_read(self, tmp_path: Path, target: Target) -> None:
        """Numbers of the log are in the store when the job has ended and all is collected."""
        keys = {"metrics": {"loss": {"regex": "loss=([0-9.]+)"}}}
        planned = self.planned(tmp_path, keys, script=LOSS)
        assert planned is not None
        run = self.submit(target, planned)
        self.follow(target, run)
        self.wait(lambda: target.poll(run), "poll to have all of it")
        target.collect(run)
        with closing(Store()) as store:
            values = [metric.value for _, metric in store.metrics(run) if metric.name == "loss"]
        assert values == [0.5, 0.4, 0.3]

    def test_several_nodes(self, tmp_path: Path, target: Target) -> None:
        """A target that takes several nodes runs the command on each, and names it by its log."""
        planned = self.planned(tmp_path, {"workers": {"count": 2}}, "workers.count")
        if planned is None:
            return
        run = self.submit(target, planned)
        lines = log_lines(self.follow(target, run))
        chief, other = (
            [line.text for line in lines if line.replica == replica]
            for replica in ("worker-0", "worker-1")
        )
        assert chief == [f"line {number}" for number in range(LINES)]
        assert other == chief[: len(other)]
        assert other or target.info.is_managed  # a cloud may end the other nodes with the chief
        assert stored(run).state is JobState.SUCCEEDED

    def test_a_job_is_adopted(
        self,
        plan: Callable[..., Submission],
        target: Target,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Another machine's store gets a managed target's job by its URL, with its whole log."""
        if not target.info.is_managed:
            return
        run = self.submit(target, plan())
        self.follow(target, run)
        url = stored(run).url
        monkeypatch.setenv("RSCTL_HOME", str(tmp_path / "other-home"))
        adopted = cast("AdoptingTarget", target).adopt(url)
        assert (adopted.url, adopted.target) == (url, self.target_name)
        events = self.follow(target, adopted.run)
        assert texts(events) == [f"line {number}" for number in range(LINES)]
        assert stored(adopted.run).state is JobState.SUCCEEDED

    def test_results(self, plan: Callable[..., Submission], target: Target) -> None:
        """Locations by their content, from the stored plan alone."""
        known = msgspec.to_builtins(plan().plan)
        for name, location in target.results(known).items():
            assert name in ("outputs", "checkpoints", "model")
            assert os.path.isabs(location) or "://" in location


class _NoRecordError(Exception):
    """The store is not available."""


def _record_and_die(submission: Submission) -> None:
    """Record a run that was submitted an hour ago, and be killed."""
    long_ago = new_run(submission)
    Store().add(replace(long_ago, created="2026-01-01T00:00:00.000000Z"))
    os.kill(os.getpid(), signal.SIGKILL)
