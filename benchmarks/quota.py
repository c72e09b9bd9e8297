"""Many jobs of one bench on Vertex AI, emulated with its quotas: how fast they are accepted.

Vertex AI takes 60 submissions a minute. The clock of the emulator and of the client's waits is sped
up alike by `PACE`, so that a minute takes 15 seconds; 1 is real time.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import Failed, measure, rsctl
from benchmarks.report import Report
from rsctl.clients.endpoints import TIME_SCALE
from rsctl.targets.managed.emulator.nodes import ANY_IMAGE, Program
from rsctl.targets.managed.emulator.nodes.runners import make_runner
from rsctl.targets.vertex.emulator import VertexEmulator
from rsctl.targets.vertex.emulator.behaviour import Behaviour

RUNS = 1
PACE = float(os.environ.get("RSCTL_QUOTA_PACE", "0.25"))
JOBS = int(os.environ.get("RSCTL_QUOTA_JOBS", "200"))
_PER_MINUTE = 60
_REPEAT = 10


def run(runs: int, jobs: int = JOBS, pace: float = PACE) -> Report:
    """Seconds from the first accepted job to the last, beside what the quota allows."""
    report = Report("quota", f"bench run of {jobs} jobs on emulated Vertex AI, pace {pace:g}")
    least = least_seconds(jobs, pace)
    walls, totals, refused = [], [], []
    for _ in range(runs):
        accepted, total, exceeded = submit(jobs, pace)
        walls.append(accepted)
        totals.append(total)
        refused.append(float(sum(exceeded.values())))
        report.notes += [f"refused: {count} x {metric}" for metric, count in exceeded.items()]
    report.add("until all are accepted", "s", walls, f"{least * 1.1:.1f}")
    report.add("the least that the quota allows", "s", [least])
    report.add("until the bench has ended", "s", totals)
    report.add("requests beyond a quota", "", refused)
    return report


def least_seconds(jobs: int, pace: float) -> float:
    """60 at once, and then 60 more each minute."""
    return ((jobs - 1) // _PER_MINUTE) * 60.0 * pace


def submit(jobs: int, pace: float) -> tuple[float, float, Counter[str]]:
    """Run a bench of so many jobs, all at once as far as the quota lets it.

    Returns seconds from the first to the last accepted job and of the whole command, and the
    requests that were too many. Raises Failed unless each job was accepted exactly once.
    """
    home = Path(os.environ["RSCTL_HOME"])
    runner = make_runner("process", {ANY_IMAGE: Program(home)})
    behaviour = Behaviour(pace=pace)
    before = dict(os.environ)
    try:
        with VertexEmulator(home / "vertex", runner, behaviour=behaviour) as emulator:
            os.environ |= emulator.environment()
            os.environ[TIME_SCALE] = str(pace)
            used = measure(rsctl("bench", "run", _write(home, jobs), *_options(jobs)))
            times = _accepted(emulator, jobs)
            exceeded = emulator.exceeded
    finally:
        os.environ.clear()
        os.environ.update(before)
        runner.close()
    return times[-1] - times[0], used.wall, exceeded


def _options(jobs: int) -> list[str]:
    return ["--quiet", "--new", "--repeat", str(_REPEAT), "--parallel", str(jobs)]


def _accepted(emulator: VertexEmulator, jobs: int) -> list[float]:
    """When each job was created."""
    shown = [record.copy() for record in emulator.jobs.records.values()]
    runs = Counter(job["labels"]["rsctl-run"] for job in shown)
    if len(shown) != jobs or max(runs.values()) != 1:
        raise Failed(f"{len(shown)} jobs of {len(runs)} runs were created, not {jobs}")
    times = [datetime.fromisoformat(job["createTime"].replace("Z", "+00:00")) for job in shown]
    return sorted(time.timestamp() for time in times)


def _write(home: Path, jobs: int) -> str:
    job: dict[str, Any] = {
        "name": "quota",
        "target": "vertex",
        "run": {"command": ["true"], "launcher": "none", "env": {"CELL": "0"}},
        "image": {"uri": "us-docker.pkg.dev/p/r/i:1"},
        "outputs": "gs://bucket/out",
        "targets": {"vertex": {"project": "rehearsal", "region": "us-central1"}},
        "matrix": {"run.env.CELL": [str(cell) for cell in range(jobs // _REPEAT)]},
    }
    path = home / "quota.json"
    path.write_text(json.dumps(job))
    return str(path)
