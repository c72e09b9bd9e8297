"""Ctrl-C in a notebook: a script that calls the API as a notebook does, and gets signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import rsctl.api
from rsctl.api import ExitCode, JobState, RsctlError
from rsctl.images.events import BuildOutput
from rsctl.runs.folder import RunFolder
from rsctl.targets.local.process import TARGET
from tests.kit.polling import DEADLINE_SECONDS

from .conftest import Write

FOLLOW = """
import rsctl.api
run = rsctl.api.submit("job.yaml")
try:
    for event in run.follow():
        if isinstance(event, rsctl.api.LogEvent):
            print(event.text, flush=True)
except KeyboardInterrupt:
    print("left", run.status().state.value)
"""


def test_an_interrupted_loop_leaves_the_run_alone(write_job: Write) -> None:
    write_job("echo up; sleep 300")
    argv = [sys.executable, "-c", FOLLOW]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "up\n"
        script.send_signal(signal.SIGINT)
        assert script.stdout.read() == "left running\n"
    assert script.returncode == 0
    assert rsctl.api.run("@last").state is JobState.RUNNING


Submit = Callable[..., None]


def interrupted(submit: Submit, before: bool) -> Submit:
    def wrapped(submission: Any, record: Any, show: Any) -> None:
        if not before:
            submit(submission, record, show)
        else:
            record()
        os.kill(os.getpid(), signal.SIGINT)
        signal.sigtimedwait([], 1)

    return wrapped


@pytest.mark.parametrize("before", [True, False])
def test_an_interrupted_submission_is_cancelled(
    write_job: Write, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    monkeypatch.setattr(TARGET, "submit", interrupted(TARGET.submit, before), raising=False)
    with pytest.raises(KeyboardInterrupt):
        rsctl.api.submit(write_job("sleep 300"))
    [run] = rsctl.api.runs()
    run.wait(timeout=DEADLINE_SECONDS)
    assert run.state is JobState.CANCELLED
    assert ("interrupted" in (run.record.reason or "")) is before


def test_an_interruption_before_it_is_recorded_leaves_nothing(
    write_job: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TARGET, "submit", interrupt, raising=False)
    prepared = rsctl.api.prepare(write_job())
    with pytest.raises(KeyboardInterrupt):
        prepared.submit()
    assert prepared.cancel() is None
    assert rsctl.api.runs() == []


def test_an_interruption_after_the_target_has_accepted_the_job_cancels_it(
    write_job: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rsctl.api.submission._record_prediction", interrupt)
    with pytest.raises(KeyboardInterrupt):
        rsctl.api.submit(write_job("sleep 300"))
    [run] = rsctl.api.runs()
    assert run.wait(timeout=DEADLINE_SECONDS).state is JobState.CANCELLED


def test_an_interrupted_second_call_leaves_the_run_of_the_first_alone(
    write_job: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    job = write_job("sleep 300")
    run = rsctl.api.submit(job, run_id="first-1234")
    monkeypatch.setattr("rsctl.api.submission.reconcile_all", interrupt)
    with pytest.raises(KeyboardInterrupt):
        rsctl.api.submit(job, run_id="first-1234")
    assert not run.status().state.is_final
    run.cancel()


@pytest.mark.parametrize("is_building", [True, False])
def test_a_cancellation_of_a_submission_in_a_notebook_leaves_the_notebook(
    write_job: Write, monkeypatch: pytest.MonkeyPatch, is_building: bool
) -> None:
    """The process that submits has the run's lock, and no signal ends it."""
    steps = []

    def prepare(submission: Any, show: Any) -> None:
        show(BuildOutput("before"))
        rsctl.api.run(submission.plan.run).request_cancel()
        if is_building:
            show(BuildOutput("after"))

    monkeypatch.setattr(TARGET, "prepare", prepare, raising=False)
    with pytest.raises(RsctlError) as caught:
        rsctl.api.submit(write_job("sleep 300"), on_progress=steps.append)
    assert caught.value.exit_code is ExitCode.CANCELLED
    assert steps == [BuildOutput("before")]
    [run] = rsctl.api.runs()
    assert caught.value.summary == f"another process has cancelled {run.id}"
    assert (run.state, run.record.reason) == (JobState.CANCELLED, caught.value.summary)


@pytest.mark.parametrize("is_noted_late", [True, False])
def test_a_cancellation_as_the_supervisor_starts_ends_the_job(
    write_job: Write, monkeypatch: pytest.MonkeyPatch, is_noted_late: bool
) -> None:
    """The supervisor starts after a submission has looked for a cancellation for the last time."""
    claim, note = RunFolder.claim, RunFolder.note_cancel

    def cancel_first(folder: RunFolder, lock: int, supervisor: int) -> None:
        def note_after_claim(folder: RunFolder) -> None:
            claim(folder, lock, supervisor)
            note(folder)

        with monkeypatch.context() as patch:
            if is_noted_late:
                patch.setattr(RunFolder, "note_cancel", note_after_claim)
            rsctl.api.run(folder.run).request_cancel()
            claim(folder, lock, supervisor)

    monkeypatch.setattr(RunFolder, "claim", cancel_first)
    run = rsctl.api.submit(write_job("sleep 300"))
    assert run.wait(timeout=DEADLINE_SECONDS).state is JobState.CANCELLED


def test_a_supervisor_of_an_earlier_version_is_cancelled(write_job: Write) -> None:
    """Its lock has its process id alone."""
    run = rsctl.api.submit(write_job("sleep 300"))
    lock = RunFolder(run.id).path / "supervisor.lock"
    lock.write_text(f"{lock.read_text().split()[0]:<10}")
    assert run.cancel(DEADLINE_SECONDS).state is JobState.CANCELLED


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_submission_that_is_killed_is_the_end_of_its_run(
    write_job: Write, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    def be_killed(submission: Any, _show: Any) -> None:
        if is_cancelled:
            rsctl.api.run(submission.plan.run).request_cancel()
        raise SystemExit

    monkeypatch.setattr(TARGET, "prepare", be_killed, raising=False)
    monkeypatch.setattr(TARGET, "_cancelled", {})  # another process has asked for it
    with pytest.raises(SystemExit):
        rsctl.api.submit(write_job("sleep 300"))
    TARGET._cancelled.clear()
    [run] = rsctl.api.runs()
    assert run.state is (JobState.CANCELLED if is_cancelled else JobState.FAILED)
    assert run.record.reason == "rsctl was killed as it submitted the job"
