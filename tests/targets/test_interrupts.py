"""Signals to `rsctl submit` in a pipeline: the first cancels the job, whatever comes after it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from signal import SIGHUP, SIGINT, SIGTERM, Signals
from typing import Any

import pytest

from tests.kit.polling import DEADLINE_SECONDS, wait_until

from .conftest import Rsctl
from .vertex.test_rehearsal import OPTIONS, faults_to_come, jobs_of

ALL_AT_ONCE = [
    [SIGINT],
    [SIGTERM],
    [SIGHUP],
    [SIGINT, SIGINT],
    [SIGINT, SIGTERM],
    [SIGHUP, SIGHUP],
    [SIGTERM, SIGINT, SIGHUP, SIGTERM],
]


def reported(signals: list[Signals]) -> str:
    return "+".join(number.name for number in signals)


def send(process: subprocess.Popen[str], signals: list[Signals]) -> tuple[str, str]:
    """All of them within a millisecond or so; what the process printed to its end."""
    for number in signals:
        process.send_signal(number)
    return process.communicate(timeout=DEADLINE_SECONDS)


def read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"{text!r} was not printed")


@pytest.mark.parametrize("signals", ALL_AT_ONCE, ids=reported)
def test_signals_cancel_a_job_on_this_machine(rsctl: Rsctl, signals: list[Signals]) -> None:
    job = rsctl.write_job(bash="echo up; exec sleep 600")
    process = rsctl.start("submit", job, "-o", "json", CI="true")
    read_until(process, '"up"')
    out, _ = send(process, signals)
    result = json.loads(out.splitlines()[-1])
    assert (result["type"], result["exit_code"]) == ("result", process.returncode)
    assert process.returncode in ((5,) if len(signals) == 1 else (5, 130))
    run = result["run"]
    wait_until(lambda: rsctl.status(run)["state"] == "cancelled", "its end")
    assert rsctl.processes(run) == []


@pytest.fixture
def emulate(rsctl: Rsctl, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """Starts an emulated Vertex AI with faults; clients in this process find it by its variables
    alone.
    """
    for name in [n for n in os.environ if n.startswith(("GOOGLE_", "CLOUDSDK_"))]:
        monkeypatch.delenv(name)
    return partial(rsctl.emulate, "vertex")


def cloud_job(rsctl: Rsctl) -> str:
    """A job of an image that is used without changes, so that nothing is built."""
    job = {
        "name": "t",
        "image": {"uri": "us-docker.pkg.dev/p/r/i:1"},
        "run": {"command": ["bash", "-c", "echo up; exec sleep 600"], "launcher": "once"},
        "outputs": "gs://bucket/out",
        "targets": {"vertex": OPTIONS},
    }
    (rsctl.folder / "job.yaml").write_text(json.dumps(job))
    return "job.yaml"


def states_of(cloud: dict[str, str]) -> list[str]:
    return [job.state.name for job in jobs_of(cloud)]


def has_ended(cloud: dict[str, str]) -> Any:
    return states_of(cloud) == ["JOB_STATE_CANCELLED"]


@pytest.mark.parametrize("signals", [[SIGINT, SIGTERM], [SIGTERM, SIGHUP, SIGINT]], ids=reported)
def test_signals_cancel_a_job_of_a_slow_cloud(
    rsctl: Rsctl, emulate: Callable[..., dict[str, str]], signals: list[Signals]
) -> None:
    cloud = emulate(
        "aiplatform.customJobs.get:delay=2,times=1000",
        "aiplatform.customJobs.cancel:delay=2,times=1",
    )
    process = rsctl.start("submit", cloud_job(rsctl), "-t", "vertex", CI="true")
    read_until(process, "up")
    _, err = send(process, signals)
    assert process.returncode == 130, err
    assert "is being cancelled. Watch it end: rsctl watch" in err
    wait_until(lambda: has_ended(cloud), "the end of the job, which nobody else cancels")


@pytest.mark.parametrize("option", ["--cancel-on-interrupt", "--detach-on-interrupt", "--detach"])
def test_signals_while_a_job_is_created_leave_none_behind(
    rsctl: Rsctl, emulate: Callable[..., dict[str, str]], option: str
) -> None:
    cloud = emulate("aiplatform.customJobs.create:delay=6")
    process = rsctl.start("submit", cloud_job(rsctl), "-t", "vertex", option)
    wait_until(lambda: faults_to_come(cloud) == 0, "the request")
    run = rsctl.runs()[0]["run"]
    _, err = send(process, [SIGINT, SIGTERM])
    assert process.returncode == 130, err
    wait_until(lambda: has_ended(cloud), "the end of the job, which nobody else cancels")
    wait_until(lambda: rsctl.status(run)["state"] == "cancelled", "its end to be reported")
