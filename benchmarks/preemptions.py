"""How many preempted jobs have saved a checkpoint that the restarted job goes on from.

A job of two nodes, whose ranks have a DataLoader with two worker processes, saves each 20 steps and
when `should_stop` says so. One node is taken away at a random moment, as the target does it: a
signal to the node alone, to all on SageMaker's spot machines, and on Vertex AI, which documents no
notice, SIGKILL. The job then restarts. A preemption counts as saved if the restarted ranks begin at
the last step that was saved, with a notice the one at which they stopped, and the job succeeds.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import requests
import yaml
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from google.auth.transport.requests import Request as GoogleRequest
from google.oauth2 import service_account

from benchmarks.measure import Failed
from benchmarks.report import Report
from rsctl.targets.local.backend import processes_of

RUNS = 5
_WAIT_SECONDS = 900.0
_MOST_WAIT = 3.0
_RSCTL = str(Path(sys.executable).with_name("rsctl"))
_TARGETS = ("process", "compose", "vertex", "sagemaker")
_BASE = os.environ.get("RSCTL_BASE", "rsctl-test-base:1")

_TRAIN = """
import os, pathlib, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from rsctl.node import should_stop

def save(step):
    aside = kept.with_suffix(".new")
    aside.write_text(str(step))
    aside.replace(kept)

dist.init_process_group("gloo")
rank = dist.get_rank()
kept = pathlib.Path(os.environ["RSCTL_CHECKPOINT_DIR"], "last")
step = int(kept.read_text()) if kept.exists() else 0
begun = step
if rank == 0:
    print("begins at", step, flush=True)
model = DistributedDataParallel(torch.nn.Linear(64, 64))
dist.barrier()
last = begun + (40 if begun else 100000)
rows = DataLoader([torch.ones(64)] * (4 * (last - begun)), batch_size=4, num_workers=2)
for batch in rows:
    model(batch).sum().backward()
    step += 1
    if rank == 0 and step == begun + 25:
        print("trains", flush=True)
    stops = should_stop()
    if rank == 0 and (stops or step % 20 == 0):
        save(step)
        print("saved" if stops else "keeps", step, flush=True)
    if stops:
        break
    time.sleep(0.01)
dist.destroy_process_group()
"""

_OPTIONS: dict[str, dict[str, Any]] = {
    "vertex": {"project": "p", "region": "us-central1", "staging": "gs://bucket/staging"},
    "sagemaker": {
        "region": "us-east-1",
        "role": "arn:aws:iam::123456789012:role/train",
        "staging": "s3://bucket/staging",
    },
}


_FAST = {
    "vertex": ("queue=1", "provision=2", "stagger=0", "grace=30"),
    "sagemaker": ("launch=1", "prepare=1", "image=1", "upload=1", "interrupted=2", "grace=120"),
}


class Hanging(Failed):
    """What should happen to a job did not come."""


def run(runs: int, targets: tuple[str, ...] = _TARGETS) -> Report:
    """So many preemptions on each target. Raises Failed if a job cannot be preempted."""
    report = Report("preemptions", f"{runs} preemptions of a job of two nodes on each target")
    for target in targets:
        job = _write_job(target)
        outcomes = [_attempted(job, target) for _ in range(runs)]
        report.add(target, "resumed", [sum(outcome is not None for outcome in outcomes)])
        saved = [each for each in outcomes if each is not None]
        if saved and target != "vertex":  # whose nodes get no notice
            report.add(target, "s to save", saved)
    return report


def _write_job(target: str) -> str:
    folder = Path(os.environ["RSCTL_HOME"]) / f"job-{target}"
    (folder / "source").mkdir(parents=True, exist_ok=True)
    (folder / "source" / "train.py").write_text(_TRAIN)
    buckets = {"vertex": "gs://bucket", "sagemaker": "s3://bucket"}
    job: dict[str, Any] = {
        "name": "preempted",
        "target": target,
        "image": {"source": "source"},
        "run": {"script": "train.py"},
        "workers": {"count": 2},
        "limits": {"retries": 1, "grace": "30s", "timeout": "1h"},
    }
    if target == "compose":
        job["image"]["base"] = _BASE
    if target in buckets:
        machine = {"vertex": "n1-standard-8", "sagemaker": "ml.c5.xlarge"}[target]
        job["image"]["base"] = _BASE
        job["workers"]["machine"] = machine
        job["checkpoints"] = f"{buckets[target]}/{time.time_ns()}"
        job["limits"] |= {"spot": True}
        job["targets"] = {target: _OPTIONS[target]}
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    return str(path)


def _attempted(job: str, target: str) -> float | None:
    """As `_outcome`; a job that hangs counts as not resumed."""
    try:
        return _outcome(job, target)
    except Hanging as problem:
        print(f"{target}: {problem}", file=sys.stderr)
        return None


def _outcome(job: str, target: str) -> float | None:
    """The seconds from the notice to the saved checkpoint; None if the job was not resumed."""
    is_cloud = target in _OPTIONS
    more = ["--rehearse", "--rehearse-with", "process", *_real_time(target)] if is_cloud else []
    if is_cloud:
        more += ["--set", f"checkpoints={_OPTIONS[target]['staging']}/{time.time_ns()}"]
    _rsctl("submit", job, "--detach", *more)
    run = str(json.loads(_rsctl("status", "@last", "-o", "json"))["run"])
    _wait(lambda: "trains" in _rsctl("logs", run), "the training")
    time.sleep(random.uniform(0.0, _MOST_WAIT))
    began = time.monotonic()
    _preempt(run, target)
    if target != "vertex":
        _wait(lambda: "saved" in _rsctl("logs", run) or _ended(run), "a checkpoint")
    took = time.monotonic() - began
    status = _wait(lambda: _ended(run), "the end")
    log = _rsctl("logs", run)
    steps = {name: re.findall(rf"{name} (\d+)", log) for name in ("saved", "keeps", "begins at")}
    print(f"{target}: {run} {status['state']}, {steps}", file=sys.stderr, flush=True)
    begun = list(map(int, steps["begins at"]))
    if status["state"] != "succeeded" or len(begun) != 2 or begun[0]:
        return None
    first = [int(step) for step in steps["saved"][:1] or steps["keeps"] if int(step) <= begun[1]]
    is_last = begun[1] == max(first, default=0) and (target == "vertex" or steps["saved"])
    return took if is_last else None


def _real_time(target: str) -> list[str]:
    """A notice as long as in the cloud; machines come at once."""
    given = ["pace=1", "ingest=0", *_FAST[target]]
    return [part for each in given for part in ("--behaviour", each)]


def _preempt(run: str, target: str) -> None:
    """Take the second node away."""
    if target == "compose":
        subprocess.run(
            ["docker", "kill", "--signal", "TERM", f"rsctl-{run}-worker-1"],
            check=True,
            capture_output=True,
        )
    elif target == "process":
        os.kill(_launcher(run), signal.SIGTERM)
    else:
        _control(run)


def _launcher(run: str) -> int:
    """The process of rsctl-launch on the second node."""
    for pid in processes_of(run, "worker-1"):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"rsctl.node.launch" in words:
            return pid
    raise Failed(f"{run} has no second node")


def _control(run: str) -> None:
    folder = Path(os.environ["RSCTL_HOME"]) / "runs" / run
    env: Mapping[str, str] = json.loads((folder / "emulator.json").read_text())
    job = json.loads(_rsctl("status", run, "-o", "json"))["url"].rpartition("/")[2]
    path = f"/emulator/jobs/{job}:preempt"
    url, headers = _signed(env, path)
    answer = requests.post(url, data=b"{}", headers=headers, timeout=30)
    answer.raise_for_status()


def _signed(env: Mapping[str, str], path: str) -> tuple[str, dict[str, str]]:
    """A request to the emulator's control API, with the credentials of its cloud."""
    headers = {"Content-Type": "application/json"}
    if google := env.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"):
        scopes = ["https://www.googleapis.com/auth/cloud-platform"]
        key = env["GOOGLE_APPLICATION_CREDENTIALS"]
        account = service_account.Credentials.from_service_account_file(key, scopes=scopes)
        account.refresh(GoogleRequest())
        return google + path, {**headers, "Authorization": f"Bearer {account.token}"}
    request = AWSRequest("POST", env["AWS_ENDPOINT_URL"] + path, headers, b"{}")
    credentials = Credentials(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"])
    SigV4Auth(credentials, "sagemaker", env["AWS_REGION"]).add_auth(request)
    return request.url, dict(request.headers)


def _ended(run: str) -> dict[str, Any] | None:
    status: dict[str, Any] = json.loads(_rsctl("status", run, "-o", "json"))
    return status if status["state"] in ("succeeded", "failed", "cancelled", "expired") else None


def _wait(condition: Callable[[], Any], what: str) -> Any:
    """The first true value. Raises Hanging after a time."""
    end = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.3)
    raise Hanging(f"{what} did not come")


def _rsctl(*arguments: str) -> str:
    done = subprocess.run([_RSCTL, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Failed(done.stderr)
    return done.stdout
