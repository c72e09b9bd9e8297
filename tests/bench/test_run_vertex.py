"""A bench on emulated Vertex AI: killed half-way, gone on with by two at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from rsctl.bench.records import Benches
from rsctl.clients.endpoints import TIME_SCALE
from rsctl.runs.store import Store
from rsctl.targets.managed.emulator.nodes import ANY_IMAGE, Program
from rsctl.targets.managed.emulator.nodes.runners import make_runner
from rsctl.targets.vertex.emulator import VertexEmulator
from rsctl.targets.vertex.emulator.behaviour import Behaviour

JOB: dict[str, Any] = {
    "name": "sweep",
    "target": "vertex",
    "run": {"command": ["echo", "speed=7"], "launcher": "none", "env": {"CELL": "0"}},
    "image": {"uri": "us-docker.pkg.dev/p/r/i:1"},
    "outputs": "gs://bucket/out",
    "metrics": {"speed": {"regex": "speed=([0-9]+)", "goal": "max"}},
    "targets": {"vertex": {"project": "rehearsal", "region": "us-central1"}},
    "matrix": {"run.env.CELL": ["1", "2", "3"]},
}
FACTOR = 0.02


def start(job: Path) -> subprocess.Popen[bytes]:
    """Two repetitions of each cell, three runs at a time."""
    words = [sys.executable, "-m", "rsctl", "bench", "run", str(job), "-r", "2", "-p", "3"]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_each_job_is_submitted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one whose submission was cut off by the kill."""
    job = tmp_path / "job.json"
    job.write_text(json.dumps(JOB))
    runner = make_runner("process", {ANY_IMAGE: Program(tmp_path)})
    emulator = VertexEmulator(tmp_path / "vertex", runner, behaviour=Behaviour(pace=FACTOR))
    with emulator:
        for name, value in {**emulator.environment(), TIME_SCALE: str(FACTOR)}.items():
            monkeypatch.setenv(name, value)
        driver = start(job)
        deadline = monotonic() + 90
        while monotonic() < deadline and len(emulator.jobs.records) < 2:
            sleep(0.01)
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        drivers = [start(job), start(job)]
        assert [driver.wait(120) for driver in drivers] == [0, 0]
        jobs = [record.copy() for record in emulator.jobs.records.values()]
    runner.close()
    runs = Counter(shown["labels"]["rsctl-run"] for shown in jobs)
    assert (len(runs), max(runs.values())) == (6, 1)
    [bench] = Benches(Store()).benches()
    assert bench.is_complete
    assert set(runs) == {trial.run for trial in bench.trials}
