"""`bench run --rehearse`: every cell in an emulator of its own, and no measurement."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rsctl.bench.baseline import make_baseline
from rsctl.bench.fingerprint import CellPrint, Fingerprint
from rsctl.bench.gate import evaluate
from rsctl.bench.records import Benches
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.bench.verdict import Floor
from rsctl.findings import RsctlError
from rsctl.runs.home import is_rehearsed
from rsctl.runs.store import Store

JOB = """
name: reh
target: vertex
image: {base: "base:1", source: src}
run: {script: train.py, launcher: once, args: {n: 1}}
metrics: {speed: {regex: 'speed=(\\d+)', goal: max}}
matrix: {run.args.n: [1, 2]}
gate: {max_regression: {speed: 5%}}
"""
SCRIPT = "import sys\nprint('speed=%d' % (100 + int(sys.argv[-1])))\n"
REHEARSE = ("bench", "run", "job.yaml", "--rehearse", "--rehearse-with", "process")


def rsctl(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rsctl", *arguments],
        cwd=folder,
        env={**os.environ, "CI": ""},
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.mark.timeout(300)
def test_every_cell_is_rehearsed_and_no_gate_takes_it(tmp_path: Path, rsctl_home: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(SCRIPT)
    (tmp_path / "job.yaml").write_text(JOB)
    done = rsctl(tmp_path, *REHEARSE)
    assert done.returncode == 0, done.stderr
    assert "= 2 runs on vertex, a rehearsal on this machine" in done.stderr
    [bench] = Benches(Store()).benches()
    assert bench.rehearsed
    assert bench.is_complete
    assert all(is_rehearsed(trial.run) for trial in bench.trials)
    again = rsctl(tmp_path, *REHEARSE)
    assert "every run of this bench is complete" in again.stderr
    assert "a rehearsal on this machine" in rsctl(tmp_path, "bench", "status", "@last").stdout
    refused = f"error: {bench.bench} is a rehearsal: its times are measured on this machine\n"
    for option in (("-b", "@last"), ("-b", "b.json", "--update-baseline")):
        gate = rsctl(tmp_path, "gate", "@last", *option)
        assert gate.returncode == 2
        assert gate.stderr.startswith(refused)


def test_an_option_of_a_rehearsal_needs_one(tmp_path: Path, rsctl_home: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    done = rsctl(tmp_path, "bench", "run", "job.yaml", "--behaviour", "stockouts=1")
    assert done.returncode == 2
    assert "--behaviour requires --rehearse" in done.stderr


def results(**fixed: str) -> Results:
    return Results(
        label="bench-1",
        kind="bench",
        fingerprint=Fingerprint([CellPrint({}, {"target": "vertex", **fixed})]),
        series=[Series(name="speed", goal="max", values=[1.0, 1.0, 1.0, 1.1, 0.9])],
        cells=[CellRuns()],
    )


def test_a_rehearsal_is_another_measurement_than_a_run_in_the_cloud() -> None:
    rehearsed, real = results(rehearsed="on this machine"), results()
    for sides in ((rehearsed, real), (real, rehearsed)):
        gate = evaluate(*sides, {"speed": Floor(0.5)})
        assert gate.verdict.value == "no-data"
        assert [difference.name for difference in gate.refused] == ["rehearsed"]
    with pytest.raises(RsctlError, match="bench-1 is a rehearsal"):
        make_baseline(rehearsed)
