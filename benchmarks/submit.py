"""What it takes to run a job that does nothing, and which parts that is made of."""

from __future__ import annotations

import json
import os
import sys
from itertools import pairwise
from pathlib import Path

import msgspec

from benchmarks.measure import Command, Usage, measure, measure_in_turn, rsctl
from benchmarks.report import Report
from rsctl.findings import JobState
from rsctl.runs.folder import RunFolder
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import StateEvent, parse_time

RUNS = 11
_PARTS = [
    "wall: until the run is recorded",
    "wall: until its supervisor is up",
    "wall: until the replica is started",
    "wall: until the job has ended",
    "wall: until the command returns",
]


def run(runs: int) -> Report:
    """A submission to its end, its parts by their times, and its programs each by itself."""
    job = _write_job()
    report = Report("submit", f"rsctl submit of `true` on process, median of {runs} runs")
    submit = rsctl("submit", job, "--quiet")
    measure(submit)
    used, parts = [], []
    for _ in range(runs):
        used.append(measure(submit))
        parts.append(_parts(used[-1]))
    report.add("all", "wall s", [usage.wall for usage in used])
    report.add("all", "CPU s", [usage.cpu + usage.left_cpu for usage in used])
    report.add("the command", "CPU s", [usage.cpu for usage in used])
    report.add("supervisor, launcher, true", "CPU s", [usage.left_cpu for usage in used])
    for name, seconds in zip(_PARTS, zip(*parts, strict=True), strict=True):
        report.add(name, "wall s", seconds)
    for name, alone in measure_in_turn(_programs(job), runs).items():
        report.add(f"alone: {name}", "CPU s", [usage.cpu for usage in alone])
    return report


def _write_job() -> str:
    path = Path(os.environ["RSCTL_HOME"]) / "true.json"
    work = {"command": ["true"], "launcher": "once"}
    path.write_text(json.dumps({"name": "true", "target": "process", "run": work}))
    return str(path)


def _programs(job: str) -> dict[str, Command]:
    nodes = {"workers": ["127.0.0.1"], "reducers": [], "interface": "lo"}
    place = "RSCTL_CLUSTER=" + json.dumps({"role": "worker", "index": 0, **nodes})
    launch = ["-m", "rsctl.node.launch", "--launcher", "once", "--", "true"]
    return {
        "python": Command([sys.executable, "-c", "pass"]),
        "rsctl plan": rsctl("plan", job, "--quiet"),
        "import of the supervisor": Command(
            [sys.executable, "-c", "import rsctl.targets.local.supervisor_process"]
        ),
        "launcher": Command(["env", place, sys.executable, *launch]),
    }


def _parts(usage: Usage) -> list[float]:
    """Seconds from each of the moments of the last run to the next."""
    store = Store()
    known = store.runs(1)[0]
    store.close()
    moments = [usage.began, *_moments(known), usage.began + usage.wall]
    return [end - start for start, end in pairwise(moments)]


def _moments(known: RunRecord) -> list[float]:
    lines = RunFolder(known.run).states.read_bytes().splitlines()
    states = [msgspec.json.decode(line, type=StateEvent) for line in lines]
    times = {event.state: event.time for event in states if event.replica is None}
    wanted = [times[s] for s in (JobState.STARTING, JobState.RUNNING, JobState.SUCCEEDED)]
    return [parse_time(time).timestamp() for time in (known.created, *wanted)]
