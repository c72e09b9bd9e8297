"""What `rsctl build-image` takes beyond docker's own time. Needs Docker and `.ci/test-base`."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from benchmarks.measure import Command, Failed, measure, rsctl
from benchmarks.report import Report
from rsctl.images.builder import select_builder
from rsctl.images.recipe import make_recipe
from rsctl.job.document import read
from rsctl.job.job import Job

RUNS = 7
_BASE = os.environ.get("RSCTL_BASE", "rsctl-test-base:1")
_FILES = 200


def run(runs: int) -> Report:
    """An image that is there, then one after a change of the source; docker alone beside it."""
    folder = Path(os.environ["RSCTL_HOME"])
    job = _write_job(folder)
    report = Report("image", f"rsctl build-image, {_FILES} files of source, median of {runs} runs")
    build = rsctl("build-image", str(job), "-t", "compose", "--quiet")
    measure(build)
    unchanged = [measure(build) for _ in range(runs)]
    report.add("unchanged: all", "wall s", [usage.wall for usage in unchanged])
    inspect = _docker("image", "inspect", make_recipe(_job(job), "compose").reference)
    looks = [measure(inspect) for _ in range(runs)]
    report.add("unchanged: docker image inspect alone", "wall s", [usage.wall for usage in looks])
    beyond = [u.wall - d.wall for u, d in zip(unchanged, looks, strict=True)]
    report.add("unchanged: beyond docker's own", "wall s", beyond, "0.5")
    changed, alone = [], []
    for _ in range(runs):
        _change(folder)
        changed.append(measure(build).wall)
        _change(folder)
        alone.append(_docker_alone(job))
    report.add("source changed: all", "wall s", changed)
    report.add("source changed: docker build alone", "wall s", alone)
    beyond = [ours - docker for ours, docker in zip(changed, alone, strict=True)]
    report.add("source changed: beyond docker's own", "wall s", beyond, "3")
    return report


def _write_job(folder: Path) -> Path:
    source = folder / "source"
    source.mkdir()
    for number in range(_FILES):
        (source / f"module_{number}.py").write_text("x = 1\n" * 200)
    image = {"base": _BASE, "source": "source", "python": ["numpy"]}
    work = {"script": "module_0.py", "launcher": "once"}
    job = folder / "job.json"
    job.write_text(json.dumps({"name": "rsctl-bench", "run": work, "image": image}))
    return job


def _job(path: Path) -> Job:
    return read(str(path)).require_job()


def _change(folder: Path) -> None:
    (folder / "source" / "module_0.py").write_text(f"x = {time.monotonic_ns()}\n")


def _docker(*arguments: str) -> Command:
    return Command(["docker", *arguments])


def _docker_alone(job: Path) -> float:
    """Seconds of the builder by itself, with a context that is ready."""
    recipe, builder = make_recipe(_job(job), "compose"), select_builder()
    context = Path(os.environ["RSCTL_HOME"]) / "context.tar"
    with context.open("wb") as out:
        recipe.write_context(out, builder.cache_mounts)
    environ = {**os.environ, **dict(builder.env)}
    start = time.monotonic()
    with context.open("rb") as tar:
        done = subprocess.run(
            builder.argv(recipe), stdin=tar, env=environ, capture_output=True, text=True
        )
    if done.returncode:
        raise Failed(done.stderr)
    return time.monotonic() - start
