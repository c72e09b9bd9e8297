"""A gate against a git ref on emulated Vertex AI: in turn on one persistent resource."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rsctl.bench.paired_plan import pair_plans
from rsctl.bench.prepare import prepare
from rsctl.bench.records import Against
from rsctl.bench.run import default_parallel
from rsctl.clients.endpoints import TIME_SCALE
from rsctl.job.document import read
from rsctl.targets.managed.emulator.nodes import ANY_IMAGE, Program
from rsctl.targets.managed.emulator.nodes.runners import make_runner
from rsctl.targets.vertex.emulator import VertexEmulator
from rsctl.targets.vertex.emulator.behaviour import Behaviour
from tests.kit.polling import DEADLINE_SECONDS

from .test_git_files import git

FACTOR = 0.02


def job(speed: str, **options: str) -> dict[str, Any]:
    return {
        "name": "sweep",
        "target": "vertex",
        "run": {
            "command": ["sh", "-c", "echo speed=$SPEED"],
            "launcher": "none",
            "env": {"SPEED": speed},
        },
        "image": {"uri": "us-docker.pkg.dev/p/r/i:1"},
        "outputs": "gs://bucket/out",
        "metrics": {"speed": {"regex": "speed=([0-9]+)", "goal": "max"}},
        "gate": {"max_regression": {"speed": "5%"}, "repeat": 3},
        "targets": {"vertex": {"project": "rehearsal", "region": "us-central1", **options}},
    }


def test_in_turn_on_one_persistent_resource(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "clone" / "job.json"
    file.parent.mkdir()
    file.write_text(json.dumps(job("90", persistent_resource="pool")))
    git(file.parent, "init", "-q", "-b", "main")
    git(file.parent, "add", ".")
    git(file.parent, "commit", "-qm", "one")
    file.write_text(json.dumps(job("70", persistent_resource="pool")))
    runner = make_runner("process", {ANY_IMAGE: Program(tmp_path)})
    behaviour = Behaviour(pace=FACTOR, persistent_resources=["pool"])
    with VertexEmulator(tmp_path / "vertex", runner, behaviour=behaviour) as emulator:
        for name, value in {**emulator.environment(), TIME_SCALE: str(FACTOR)}.items():
            monkeypatch.setenv(name, value)
        words = [
            sys.executable,
            "-m",
            "rsctl",
            "gate",
            str(file),
            "--against",
            "main",
            "-o",
            "json",
        ]
        done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        jobs = [record.copy() for record in emulator.jobs.records.values()]
    runner.close()
    gate = json.loads(done.stdout)
    assert (done.returncode, gate["verdict"], gate["checks"][0]["pairs"]) == (7, "regressed", 3)
    specs = [shown["jobSpec"] for shown in sorted(jobs, key=lambda shown: shown["createTime"])]
    assert {spec["persistentResourceId"] for spec in specs} == {"pool"}
    [speeds] = [
        [
            variable["value"]
            for spec in specs
            for variable in spec["workerPoolSpecs"][0]["containerSpec"]["env"]
            if variable["name"] == "SPEED"
        ]
    ]
    assert speeds == ["90", "70", "70", "90", "70", "90"]
    assert "6 runs, 3 of each side in turn" in done.stderr


@pytest.mark.parametrize(("options", "parallel"), [({}, 2), ({"persistent_resource": "pool"}, 1)])
def test_runs_overlap_unless_they_share_machines(
    tmp_path: Path, options: dict[str, str], parallel: int
) -> None:
    for name in ("before.json", "after.json"):
        (tmp_path / name).write_text(json.dumps(job("90", **options)))
    plans = [prepare(read(str(tmp_path / n)), (), None) for n in ("after.json", "before.json")]
    plan = pair_plans(*plans, Against(given="before.json", file="before.json"))
    assert default_parallel(plan) == parallel
