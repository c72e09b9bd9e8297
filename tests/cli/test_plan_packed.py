"""What packing saves, as a plan and a bench say it before they start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rsctl.findings import JobState
from rsctl.runs.home import run_directory
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import StateEvent
from tests.cli.conftest import Cli

JOB = """
name: sides
target: vertex
image: {uri: "us-docker.pkg.dev/p/r/i:1"}
run: {command: [date], launcher: once}
workers: {machine: n1-standard-8}
limits: {timeout: 10m}
bench: {pack: true}
gate: {repeat: 5}
targets: {vertex: {project: p, region: us-central1, staging: "gs://bucket/s"}}
"""
PACKED = "packed: 5 runs in 1 job, which saves 4 starts of machines"


def started(run: str, seconds: int) -> None:
    """A run that its cloud took so long to start."""
    store = Store()
    created = "2026-01-01T00:00:00.000000Z"
    about = {"run": run, "name": "x", "target": "vertex", "url": f"vertex://{run}"}
    store.add(RunRecord(**about, state=JobState.QUEUED, created=created))
    at = f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}.000000Z"
    store.record(run, StateEvent(time=at, state=JobState.RUNNING))
    store.close()


def test_a_plan_says_what_packing_saves(rsctl: Cli, rsctl_home: Path) -> None:
    """Time and money by earlier starts in the cloud; those of a rehearsal do not count."""
    Path("job.yaml").write_text(JOB)

    def line() -> str:
        done = rsctl("plan", "job.yaml")
        assert done.code == 0, done.err
        return re.findall(r"packed: .*", done.out)[0]

    unknown = f"{PACKED}; their time and price will be known after a first run on vertex"
    assert line() == unknown
    assert not (rsctl_home / "runs.db").exists()
    started("x-aaaaaa", 2)
    run_directory("x-aaaaaa").mkdir(parents=True)
    (run_directory("x-aaaaaa") / "rehearsal.json").write_text("{}")
    assert line() == unknown
    started("x-bbbbbb", 300)
    per_hour = 0.38
    found = re.fullmatch(
        rf"{PACKED}: about 0?:?20:00 and up to (0\.\d+) USD, by earlier starts on vertex", line()
    )
    assert found is not None, line()
    assert float(found[1]) == pytest.approx(4 * 300 * per_hour / 3600, rel=0.2)
