"""`rsctl submit` that does not wait for the end: detached, interrupted, or its reader gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading

import pytest

from rsctl.runs.store import Store
from tests.kit.polling import wait_until

from .conftest import Cli
from .submissions import assert_shapes, job

pytestmark = pytest.mark.usefixtures("runs_end_with_the_test")


def test_a_detached_job_is_attached_to_again_and_cancelled(rsctl: Cli) -> None:
    name = job(rsctl, "echo up; sleep 300")
    done = rsctl.process("submit", "-d", name)
    run = done.out.strip()
    assert (done.code, done.out) == (0, f"{run}\n")
    assert done.err == f"watch it: rsctl watch {run}   cancel it: rsctl cancel {run}\n"
    with subprocess.Popen(
        rsctl.argv("logs", "-f", run), stdout=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "worker-0 | up\n"
        done = rsctl("cancel", run)
        assert (done.code, done.out, done.err) == (0, "", f"{run} cancelled\n")
    assert follower.returncode == 0
    assert rsctl("status", run, "--watch").code == 5


def test_a_detached_job_as_events(rsctl: Cli) -> None:
    done = rsctl.process("submit", "-d", "-o", "json", job(rsctl, "true"))
    assert (done.code, done.err) == (0, "")
    assert_shapes(done.events)
    assert done.events[-1]["exit_code"] == 0
    assert done.events[-1]["run"] == Store().runs()[0].run


@pytest.mark.parametrize("cancels", [False, True])
def test_an_interruption_detaches_or_cancels(rsctl: Cli, cancels: bool) -> None:
    name = job(rsctl, "echo up; sleep 300")
    option = "--cancel-on-interrupt" if cancels else "--detach-on-interrupt"
    with subprocess.Popen(
        rsctl.argv("submit", name, "-o", "json", option), stdout=subprocess.PIPE, text=True
    ) as watcher:
        assert watcher.stdout is not None
        wait_until(lambda: '"up"' in watcher.stdout.readline())  # type: ignore[union-attr]
        watcher.send_signal(signal.SIGINT)
        events = [json.loads(line) for line in watcher.stdout.read().splitlines()]
    assert watcher.returncode == (5 if cancels else 130)
    assert events[-1]["type"] == "result"
    assert events[-1]["state"] == ("cancelled" if cancels else "running")
    assert rsctl("status", "@last", "-o", "json").json["state"] == events[-1]["state"]


def test_a_pipeline_that_ends_it_before_it_is_sent_reads_a_result(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_ended(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(60)

    monkeypatch.setattr("rsctl.api.submission.make_plan", be_ended)
    done = rsctl("submit", job(rsctl, "true"), "-o", "json")
    assert (done.code, done.err) == (5, "note: interrupted: nothing was submitted\n")
    assert_shapes(done.events)
    result = done.events[-1]
    assert (result["run"], result["state"], result["exit_code"]) == (None, "cancelled", 5)
    assert Store().runs() == []


def test_a_reader_that_goes_away_detaches(rsctl: Cli) -> None:
    name = job(rsctl, "while sleep 0.05; do echo line; done")
    done = rsctl.shell(f"rsctl submit {name} | head -1")
    assert (done.code, done.out) == (130, "worker-0 | line\n")
    run = Store().runs()[0].run
    assert done.err.endswith(
        f"error: the result of {run} is unknown; its job was accepted and continues: "
        f"process://{run}\n    -> watch it: rsctl logs -f {run}   cancel it: rsctl cancel {run}\n"
    )
    assert rsctl("status", "@last", "-o", "json").json["state"] == "running"
    done = rsctl.shell(f"rsctl submit {name} 2>&1 | head -1")
    assert done.code == 130
    assert done.out.endswith(" on process, 1 replica\n")


@pytest.mark.parametrize("options", ["", "--detach"])
def test_output_that_cannot_be_written_does_not_hide_that_the_job_goes_on(
    rsctl: Cli, options: str
) -> None:
    name = job(rsctl, "echo up; sleep 300")
    done = rsctl.shell(f"rsctl submit {name} {options} > /dev/full")
    run = Store().runs()[0].run
    assert done.code == 9
    unwritten = "error: cannot write to standard output: No space left on device\n"
    assert f"{unwritten}    -> free disk space\n" in done.err
    assert f"the result of {run} is unknown; its job was accepted and continues" in done.err
    assert done.err.count("error: ") == 2
    assert (
        "cannot write to standard output: No space left on device\n    -> free disk space\n"
        in done.err
    )
    assert f"-> watch it: rsctl logs -f {run}   cancel it: rsctl cancel {run}\n" in done.err
    assert rsctl("status", run, "-o", "json").json["ended"] is None


def test_a_run_that_has_ended_meanwhile_is_said_to(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("a bug of ours")

    monkeypatch.setattr("rsctl.cli.submit.next_commands", fail)
    done = rsctl("submit", job(rsctl, "true"))
    run = Store().runs()[0].run
    assert done.code == 9
    assert "error: rsctl failed unexpectedly: ValueError: a bug of ours" in done.err
    assert f"note: {run} was accepted and has ended (succeeded): process://{run}\n" in done.err


def test_an_error_once_the_job_is_accepted_is_no_refusal(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rsctl.api.submission._record_prediction", fail)
    done = rsctl("submit", job(rsctl, "sleep 300"), "-o", "json")
    run = Store().runs()[0].run
    assert done.code == 9
    assert_shapes(done.events)
    assert [event.get("code") for event in done.events] == ["system", "result-unknown", None]
    result = done.events[-1]
    assert (result["run"], result["exit_code"]) == (run, 9)
    assert result["state"] in ("queued", "starting", "running")


def test_nothing_that_a_command_leaves_is_a_warning_of_python(rsctl: Cli) -> None:
    """Such as the supervisor, which outlives the command."""
    (rsctl.folder / "data" / "train").mkdir(parents=True)
    rsctl.write("", "train.py")
    name = rsctl.write("name: job\ntarget: process\nrun: {script: train.py, launcher: once}\n")
    for command in (["submit"], ["bench", "run", "--detach"], ["bench", "run", "--new"]):
        done = rsctl.process(*command, "-q", name, PYTHONWARNINGS="error")
        assert (done.code, done.err) == (0, "")
