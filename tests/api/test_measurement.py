"""A script is measured by a short run of it; one with nothing to measure says why."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

import rsctl.api
from rsctl.api import ExitCode, RsctlError
from rsctl.runs.calibrations import saved_profile

from .conftest import Write

SCRIPT = Path(__file__).parents[1] / "transport" / "pytorch" / "scripts" / "loading.py"
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


@needs_torch
def test_a_script_is_measured_as_it_is(write_job: Write, torch_forks: dict[str, str]) -> None:
    """On one node, whatever the job asks for, and with nothing of the job's outputs touched."""
    shutil.copy(SCRIPT, "src")
    run = {"script": "loading.py", "env": torch_forks}
    job = write_job(run=run, workers={"count": 4}, reducers={"count": 2}, outputs="out", metrics={})
    begun: list[rsctl.api.Run] = []
    profile = rsctl.api.measure(job, steps=5, on_begin=begun.append)
    assert profile.gradient_bytes == 72 * 4
    assert 0 < profile.data_seconds < profile.step_seconds
    assert profile.source.startswith("measured on this machine: 6 steps of 1 rank")
    (measured,) = begun
    assert measured.record.plan["world_size"] == 1
    assert not Path("out").exists()
    assert saved_profile(rsctl.api.load(job).spec) == profile
    again = rsctl.api.profile_of_run(measured.id)
    assert (again.source, again.buckets) == (f"run {measured.id}", profile.buckets)


def problem(job: str, **options: int) -> RsctlError:
    """What measuring a job ends with."""
    with pytest.raises(RsctlError) as raised:
        rsctl.api.measure(job, **options)
    return raised.value


@pytest.mark.parametrize(
    ("printed", "shown"), [("no such thing", "no such thing"), ("x" * 201, "x" * 200)]
)
def test_a_script_that_fails_is_told_by_its_last_line(
    write_job: Write, printed: str, shown: str
) -> None:
    error = problem(write_job(f"echo {printed} >&2; exit 3"))
    assert error.exit_code == ExitCode.JOB_FAILED
    assert error.findings[-1].message == (
        f"the script failed before it had completed its steps: {shown}"
    )
    assert (error.findings[-1].remedy or "").startswith("see rsctl logs job-")


def test_a_script_without_torch_has_no_steps(write_job: Write) -> None:
    assert problem(write_job("true")).summary == (
        "the script succeeded, but did not load rsctl's binding to PyTorch"
    )


def test_a_script_that_takes_too_long_is_ended(write_job: Write) -> None:
    error = problem(write_job("sleep 600"), seconds=1)
    assert error.summary == "the script has not completed its steps within 1 s"
    assert rsctl.api.run("@last").state.is_final


@pytest.mark.parametrize("steps", [0, 61])
def test_a_number_of_steps_that_cannot_be_measured(write_job: Write, steps: int) -> None:
    error = problem(write_job("true"), steps=steps)
    assert (error.exit_code, error.summary) == (ExitCode.USAGE, f"cannot measure {steps} steps")
    assert rsctl.api.runs() == []


def test_a_job_without_our_launcher_cannot_be_measured(write_job: Write) -> None:
    job = write_job(run={"command": ["true"], "launcher": "none"}, image={"uri": "x"})
    (finding,) = problem(job).findings
    assert (finding.code, finding.path, finding.file) == ("measure", "run.launcher", "job.yaml")


def test_a_run_that_has_recorded_nothing_has_no_profile(write_job: Write) -> None:
    run = rsctl.api.submit(write_job("true"))
    run.wait()
    with pytest.raises(RsctlError, match="has recorded no steps"):
        rsctl.api.profile_of_run(run.id)
