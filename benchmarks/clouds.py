"""What a submission to a cloud costs, up to the accepted job; the clouds are emulated."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import measure_in_turn, rsctl
from benchmarks.report import Report
from rsctl.targets.managed.emulator.clouds import emulator_of, make_emulator
from rsctl.targets.managed.emulator.nodes import ANY_IMAGE, Program
from rsctl.targets.managed.emulator.nodes.runners import make_runner

RUNS = 11
_JOB: dict[str, Any] = {"name": "true", "run": {"command": ["true"], "launcher": "once"}}
_CLOUDS: dict[str, dict[str, Any]] = {
    "vertex": {
        "image": {"uri": "us-docker.pkg.dev/p/r/i:1"},
        "outputs": "gs://bucket/out",
        "targets": {"vertex": {"project": "rehearsal", "region": "us-central1"}},
    },
    "sagemaker": {
        "image": {"uri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/i:1"},
        "outputs": "s3://bucket/out",
        "targets": {
            "sagemaker": {"region": "us-east-1", "role": "arn:aws:iam::123456789012:role/train"}
        },
    },
}


def run(runs: int) -> Report:
    """CPU and wall seconds of `rsctl submit --detach` of an image that is used as it is."""
    report = Report("clouds", f"rsctl submit --detach to an emulator, median of {runs} runs")
    with ExitStack() as stack:
        for cloud in _CLOUDS:
            stack.enter_context(_playing(cloud))
        commands = {
            cloud: rsctl("submit", "--detach", "--quiet", _write(cloud), "--target", cloud)
            for cloud in _CLOUDS
        }
        for cloud, used in measure_in_turn(commands, runs).items():
            report.add(cloud, "CPU s", [usage.cpu for usage in used], "0.9")
            report.add(cloud, "wall s", [usage.wall for usage in used])
    return report


@contextmanager
def _playing(cloud: str) -> Iterator[None]:
    """A cloud in this process, which every command of this environment finds."""
    home = Path(os.environ["RSCTL_HOME"])
    runner = make_runner("process", {ANY_IMAGE: Program(home)})
    behaviour = {"pace": 0.01}
    emulator = make_emulator(emulator_of(cloud).emulator, home / cloud, runner, {}, behaviour)
    with emulator:
        os.environ |= emulator.environment()
        yield
    runner.close()


def _write(cloud: str) -> str:
    path = Path(os.environ["RSCTL_HOME"]) / f"{cloud}.json"
    path.write_text(json.dumps(_JOB | _CLOUDS[cloud]))
    return str(path)
