"""The key `profile`: profiles of ranks of an unmodified script."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.docker import BASE, needs_docker

from ..conftest import Done, Rsctl

TRAIN = """
import sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(300, 300))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
other = torch.optim.SGD(model.parameters(), lr=0.0)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.ones(8, 300)).sum().backward()
    optimizer.step()
    other.step()
dist.destroy_process_group()
"""
WARMED = """
import time

def warm_up():
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass

warm_up()
"""
BUSY = """
import sys, time

def busy_loop():
    end = time.monotonic() + 2
    while time.monotonic() < end:
        sum(range(100_000))
        time.sleep(0.004)  # the machine has other work

busy_loop()
sys.exit(7)
"""


def submit(rsctl: Rsctl, script: str, profile: dict[str, Any], *args: str, **keys: Any) -> str:
    """Submit a job of this script; returns its run."""
    env = keys.pop("env", {})
    run = {"script": "train.py", "args": list(args), **keys.pop("run", {})}
    job = rsctl.write_job(run=run, profile=profile, **keys)
    (rsctl.folder / "source" / "train.py").write_text(script)
    return str(rsctl("submit", job, "-o", "json", **env).result["run"])


def folder_of(rsctl: Rsctl, run: str) -> Path:
    return rsctl.home / "runs" / run / "outputs" / "rsctl-profile"


def profile_findings(rsctl: Rsctl, run: str) -> list[str]:
    return [f["message"] for f in rsctl.status(run)["findings"] if f["code"] == "profile"]


def logged_profiles(done: Done) -> list[dict[str, Any]]:
    texts = [event["text"] for event in done.events if event["type"] == "log"]
    return [json.loads(text) for text in texts if text.startswith('{"rsctl": "profile"')]


def test_steps_of_an_unmodified_script_are_profiled(
    rsctl: Rsctl, torch_forks: dict[str, str]
) -> None:
    profile = {"tool": "torch", "ranks": [1], "steps": "4..6"}
    run = submit(rsctl, TRAIN, profile, "8", workers={"count": 2}, env=torch_forks)
    assert rsctl.status(run)["state"] == "succeeded"
    assert profile_findings(rsctl, run) == []
    [file] = folder_of(rsctl, run).iterdir()
    assert file.name == "rank-1.trace.json.gz"
    trace = json.loads(gzip.decompress(file.read_bytes()))
    names = [event.get("name") for event in trace["traceEvents"]]
    assert names.count("Optimizer.step#SGD.step") == 6  # of two optimizers
    [record] = logged_profiles(rsctl("logs", run, "-o", "json"))
    assert (record["tool"], record["rank"], record["steps"]) == ("torch", 1, "4..6")
    assert record["file"] == "rsctl-profile/rank-1.trace.json.gz"
    assert 0 < record["communication"] <= 1
    assert sum(part for _, part in record["top"]) <= 1.001
    shown = rsctl("logs", run).stdout
    assert "rsctl: profile of rank 1 (torch, steps 4..6): " in shown
    assert rsctl("report", run, "-o", "report.html").exit_code == 0
    report = (rsctl.folder / "report.html").read_text()
    assert "<h3>Profiles</h3>" in report
    assert "rsctl-profile/rank-1.trace.json.gz" in report


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            "40..50",
            "rank 0 has left no profile: it has not made step 40 with an optimizer of torch.optim",
        ),
        (
            "3..50",
            "the script of rank 0 has ended after step 5, before the last step of the profile, 50",
        ),
    ],
)
def test_steps_that_never_come_are_a_finding(
    rsctl: Rsctl, torch_forks: dict[str, str], steps: str, message: str
) -> None:
    run = submit(rsctl, TRAIN, {"tool": "torch", "steps": steps}, "5", env=torch_forks)
    assert rsctl.status(run)["state"] == "succeeded"
    assert profile_findings(rsctl, run) == [message]


def test_py_spy_samples_a_whole_run_and_keeps_its_exit_code(rsctl: Rsctl) -> None:
    profile = {"tool": "py-spy", "ranks": [0, 1]}
    run = submit(rsctl, BUSY, profile, run={"launcher": "once"}, workers={"count": 2})
    status = rsctl.status(run)
    assert (status["state"], status["first_failure"]["exit_code"]) == ("failed", 7)
    assert status["first_failure"]["causes"] == []
    assert profile_findings(rsctl, run) == []
    files = sorted(folder_of(rsctl, run).iterdir())
    assert [file.name for file in files] == ["rank-0.folded.txt", "rank-1.folded.txt"]
    assert all("busy_loop" in file.read_text() for file in files)
    assert "rsctl: profile of rank 1 (py-spy, the whole run): 0% communication" in (
        rsctl("logs", run).stdout
    )


def test_py_spy_samples_some_steps(rsctl: Rsctl, torch_forks: dict[str, str]) -> None:
    profile = {"tool": "py-spy", "steps": "3..250"}
    run = submit(rsctl, WARMED + TRAIN, profile, "300", env=torch_forks)
    assert rsctl.status(run)["state"] == "succeeded"
    assert profile_findings(rsctl, run) == []
    [file] = folder_of(rsctl, run).iterdir()
    assert "train.py" in file.read_text()
    assert "warm_up" not in file.read_text()


def test_a_tool_that_is_not_installed_is_refused(
    rsctl: Rsctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    job = rsctl.write_job(run={"script": "train.py"}, profile={"tool": "nsys"})
    (rsctl.folder / "source" / "train.py").write_text("")
    done = rsctl.look("submit", job)
    assert done.exit_code == 3
    assert "error: profile.tool: this machine has no nsys\n" in done.stderr


@needs_docker
def test_ranks_in_containers_are_profiled(rsctl: Rsctl) -> None:
    profile = {"tool": "torch", "ranks": [0, 1], "steps": "2..3"}
    keys = {"workers": {"count": 2}, "image": {"base": BASE}, "target": "compose"}
    run = submit(rsctl, TRAIN, profile, "4", **keys)
    names = sorted(file.name for file in folder_of(rsctl, run).iterdir())
    assert names == ["rank-0.trace.json.gz", "rank-1.trace.json.gz"]
