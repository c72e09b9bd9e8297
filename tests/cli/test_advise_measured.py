"""`rsctl advise` on scripts that it measures first, and `--calibrate` on runs."""

from __future__ import annotations

import importlib.util
import re
import shutil
import signal
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from rsctl.api import JobState, Run
from rsctl.estimate.advice.calibration import UNCALIBRATED
from rsctl.runs.store import Store
from rsctl.targets.local import compose
from rsctl.targets.local.host import this_host
from tests.api.test_calibration import add_run

from .conftest import Cli

TRAINING = Path(__file__).parents[2] / "benchmarks" / "advise" / "training.py"
JOB = """\
name: job
target: compose
run: {script: training.py, args: ["1000000", "%s", "60", "%s"]}
image: {base: "pytorch/pytorch:2.8.0", source: src}
workers: {count: 4}
targets: {compose: {network: {bandwidth: 10Gbit}}}
"""
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


@pytest.fixture(autouse=True)
def source(rsctl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a training script whose computation and input sleep, and a large machine."""
    (rsctl.folder / "src").mkdir(exist_ok=True)
    shutil.copy(TRAINING, rsctl.folder / "src")
    host = replace(this_host(), cpus=64, gpus=0)
    monkeypatch.setattr(compose.TARGET, "_host", host)
    monkeypatch.setattr("rsctl.targets.local.host.this_host", lambda: host)


@pytest.fixture
def forked(torch_forks: dict[str, str]) -> list[str]:
    """Options by which the measured job's ranks import torch in no time."""
    settings = (f"run.env.{name}={value}" for name, value in torch_forks.items())
    return [word for setting in settings for word in ("--set", setting)]


@needs_torch
def test_a_script_that_waits_for_its_input_is_told_so(rsctl: Cli, forked: list[str]) -> None:
    """Of 70 ms it reads for 50, whatever else a busy machine adds to both."""
    done = rsctl("advise", rsctl.write(JOB % ("0.02", "0.05")), "--measure", *forked)
    assert "measuring a few steps of the script on this machine: run job-" in done.err
    assert "1.05 MB of gradients" in done.err
    waits = re.search(r"the step spends (\d+)% of its time waiting for input data", done.err)
    assert waits is not None
    assert 40 < int(waits[1]) < 95
    assert "input data" in done.out
    again = rsctl("advise", "job.yaml", *forked)
    assert "measuring" not in again.err
    assert again.out == done.out


@needs_torch
def test_a_script_to_which_reducers_are_no_gain_is_told_so_with_numbers(
    rsctl: Cli, forked: list[str]
) -> None:
    """What is measured goes before what the file says."""
    file = rsctl.write(JOB % ("0.2", "0") + "model: {parameters: 900M, step_seconds: 0.01}\n")
    done = rsctl("advise", file, "--measure", *forked)
    assert "Use no reducers (ring): a step of " in done.out
    assert "limited by computation." in done.out
    assert re.search(
        r"why: communication overlaps with computation: even without any communication, "
        r"a step would be only [0-9.]+% faster",
        done.err,
    )


def test_runs_are_fitted_and_their_target_is_calibrated(rsctl: Cli) -> None:
    store = Store()
    runs = [add_run(store, number, workers) for number, workers in enumerate((2, 4, 8))]
    done = rsctl("advise", "--calibrate", *runs)
    head, *rows, links, cpu = done.out.splitlines()
    assert head.split() == ["RUN", "MEASURED", "BEFORE", "ERROR", "AFTER", "ERROR"]
    assert [row.split()[0] for row in rows] == runs
    assert re.match(r"vertex: (49|5[01])\.\d% of the links' net rate, ", links)
    ring = UNCALIBRATED.ring_cpu_seconds_per_gb
    assert cpu.startswith(f"CPU seconds per GB: {ring:.2f} for a ring, ")
    assert "median error of a predicted step time: " in done.err
    (fitted,) = rsctl("advise", "--calibrate", *runs, "-o", "json").json["calibrations"]
    assert (fitted["target"], fitted["calibration"]["fitted_from"]) == ("vertex", runs)


def test_the_end_of_a_pipeline_ends_the_measurement(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_ended(_run: Run) -> None:
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait(60)

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    monkeypatch.setattr(Run, "wait", be_ended)
    done = rsctl("advise", rsctl.write(JOB % ("0.02", "0.05")), "--measure")
    signal.signal(signal.SIGTERM, before)
    assert done.code == 130
    [run] = Store().runs()
    assert run.state is JobState.CANCELLED


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("job.yaml", "b.yaml"), "several names are runs for --calibrate"),
        (("job.yaml", "--measure", "--run", "@last"), "--measure or --run"),
    ],
)
def test_what_does_not_go_together(rsctl: Cli, arguments: tuple[str, ...], message: str) -> None:
    rsctl.write(JOB % ("0.2", "0"))
    done = rsctl("advise", *arguments)
    assert done.code == 2
    assert message in done.err
