"""Whole jobs through the emulated SageMaker, by the command line: as processes and in Docker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.kit.docker import needs_docker
from tests.kit.polling import wait_until

from ..conftest import Rsctl, rehearsed

REPOSITORY = Path(__file__).parents[3]
QUICKSTART = str(REPOSITORY / "examples" / "quickstart" / "job.yaml")
PROCESSES = rehearsed("sagemaker")
TRAIN = """\
import os, signal, sys, time
folder = os.environ["RSCTL_CHECKPOINT_DIR"]
file = os.path.join(folder, os.environ["RSCTL_REPLICA"])
begun = int(open(file).read()) if os.path.exists(file) else 0
print(f"begins at {begun}", flush=True)
def save(*_):
    open(file, "w").write("7")
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
while begun < 7:
    time.sleep(0.05)
print("done", flush=True)
"""


def write_training(rsctl: Rsctl, **keys: Any) -> str:
    """A job that ends only once it was stopped after saving, and started again."""
    job = rsctl.write_job(
        run={"script": "train.py", "launcher": "once"},
        image={"base": "b"},
        checkpoints="s3://rehearsal-bucket/ckpt",
        **keys,
    )
    (rsctl.folder / "source" / "train.py").write_text(TRAIN)
    return job


def control(env: dict[str, str], method: str, path: str) -> Any:
    """Ask an emulator how it goes, or for trouble."""
    credentials = Credentials(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"])
    body = b"{}" if method == "POST" else b""
    headers = {"Content-Type": "application/json"}
    signed = AWSRequest(method, f"{env['AWS_ENDPOINT_URL']}{path}", headers, body)
    SigV4Auth(credentials, "sagemaker", env["AWS_REGION"]).add_auth(signed)
    answer = requests.request(method, signed.url, data=body, headers=dict(signed.headers))
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_quickstart_with_a_reducer_group(rsctl: Rsctl, torch_forks: dict[str, str]) -> None:
    settings = ("workers.count=2", "reducers.count=1", "run.args.epochs=5")
    settings += tuple(f"run.env.{name}={value}" for name, value in torch_forks.items())
    small = [word for setting in settings for word in ("--set", setting)]
    done = rsctl("submit", QUICKSTART, *PROCESSES, *small, "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert done.result["metrics"]["accuracy"]["last"] > 0.95
    epochs = [e["text"] for e in done.events if e["type"] == "log" and "epoch " in e["text"]]
    assert [text.split()[1] for text in epochs] == [str(epoch) for epoch in range(1, 6)]
    run = rsctl.status("@last")
    assert run["url"] == f"sagemaker://us-east-1/{run['run']}"
    assert [(r["replica"], r["state"]) for r in run["replicas"]] == [
        ("worker-0", "succeeded"),
        ("worker-1", "succeeded"),
        ("reducer-0", "succeeded"),
    ]
    assert run["gradients"]["operations"] > 0
    assert run["facts"]["billable_seconds"] > 0
    assert len(rsctl("metrics", "@last", "-o", "json", "--name", "accuracy").events) == 5


@needs_docker
def test_a_failure_in_containers_is_found(rsctl: Rsctl) -> None:
    job = rsctl.write_job(
        image={"base": "rsctl-test-base:1"},
        bash='echo "$RSCTL_REPLICA of $RSCTL_TARGET"; [ $RSCTL_REPLICA != worker-1 ] || exit 3;'
        " sleep 600",
        workers={"count": 2},
        reducers={"count": 1},
    )
    done = rsctl("submit", job, *rehearsed("sagemaker", "docker"))
    assert done.exit_code == 1, done.stderr
    run = rsctl.status("@last")
    assert (run["state"], run["first_failure"]["replica"]) == ("failed", "worker-1")
    assert run["first_failure"]["exit_code"] == 3


def test_a_job_that_is_stopped_saves_first(rsctl: Rsctl) -> None:
    run = rsctl.detach(write_training(rsctl), *PROCESSES)
    rsctl.wait_for_log(run, "begins at 0")
    assert rsctl("cancel", run).exit_code == 0
    status = wait_until(lambda: _final(rsctl.status(run)), "its end")
    assert status["state"] == "cancelled"
    assert "saved" in rsctl.log(run)


def test_a_spot_interruption_goes_on_from_the_checkpoint(rsctl: Rsctl) -> None:
    options = {"checkpoint_path": "/workspace/ckpt", "profiler": True}
    keys = {"limits": {"spot": True}, "targets": {"sagemaker": options}}
    run = rsctl.detach(write_training(rsctl, **keys), *PROCESSES)
    rsctl.wait_for_log(run, "begins at 0")
    env = json.loads((rsctl.home / "runs" / run / "emulator.json").read_text())
    assert control(env, "POST", f"/emulator/jobs/{run}:preempt") == {}
    status = wait_until(lambda: _final(rsctl.status(run)), "its end")
    assert (status["state"], status["attempt"]) == ("succeeded", 2)
    log = [text for text in rsctl.log(run).splitlines() if "worker-0" in text]
    assert log == [f"worker-0 | {text}" for text in ("begins at 0", "saved", "begins at 7", "done")]


def _final(status: dict[str, Any]) -> dict[str, Any] | None:
    return status if status["state"] in ("failed", "succeeded", "cancelled") else None


@pytest.fixture
def cloud(rsctl: Rsctl) -> dict[str, str]:
    """An emulator in the foreground, whose first create is slow to begin."""
    return rsctl.emulate("sagemaker", "sagemaker.CreateTrainingJob:delay=3")


def client_of(environment: dict[str, str]) -> Any:
    return boto3.Session(
        environment["AWS_ACCESS_KEY_ID"],
        environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_REGION"],
    ).client("sagemaker", endpoint_url=environment["AWS_ENDPOINT_URL"])


def test_a_killed_submission_leaves_one_job_and_is_found_again(
    rsctl: Rsctl, cloud: dict[str, str]
) -> None:
    job = {
        "name": "t",
        "image": {"uri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/i:1"},
        "run": {"command": ["echo", "done"], "launcher": "once"},
        "outputs": "s3://bucket/out",
        "targets": {
            "sagemaker": {"region": "us-east-1", "role": "arn:aws:iam::123456789012:role/train"}
        },
    }
    (rsctl.folder / "job.yaml").write_text(json.dumps(job))
    process = rsctl.start("submit", "job.yaml", "-t", "sagemaker")
    wait_until(lambda: control(cloud, "GET", "/emulator/state")["faults"] == 0, "the request")
    process.kill()  # its request is under way: the emulator waits before it looks at it
    process.communicate()
    run = rsctl.runs()[0]["run"]
    listed = wait_until(
        lambda: client_of(cloud).list_training_jobs()["TrainingJobSummaries"], "the job"
    )
    assert [job["TrainingJobName"] for job in listed] == [run]
    status = wait_until(lambda: _final(rsctl.status(run)), "its end")
    assert (status["state"], status["url"]) == ("succeeded", f"sagemaker://us-east-1/{run}")
    assert "done" in rsctl.log(run)


def test_a_run_goes_on_where_there_is_room(rsctl: Rsctl) -> None:
    """A name is unique in its region for ever, so two jobs of one run in one region have two."""
    job = rsctl.write_job(
        bash="echo loss=0.5 in $RSCTL_RUN",
        image={"base": "b"},
        workers={"machine": ["ml.c5.xlarge", "ml.m5.xlarge"]},
        targets={"sagemaker": {"region": ["us-east-1", "us-west-2"]}},
    )
    scarce = ('stockouts_in=["us-east-1"]', 'no_quota_in=["us-west-2/ml.c5.xlarge"]')
    behaviour = [("--behaviour", each) for each in (*scarce, "give_up=10", "pace=0.002")]
    done = rsctl("submit", job, *PROCESSES, *sum(behaviour, ()), "-o", "json")
    assert done.exit_code == 0, done.stderr
    result = done.result
    run, placements = result["run"], result["placements"]
    assert [(placement["url"], placement["state"]) for placement in placements] == [
        (f"sagemaker://us-east-1/{run}", "failed"),
        (f"sagemaker://us-east-1/{run}-2", "failed"),
        (None, "failed"),
        (f"sagemaker://us-west-2/{run}-4", "succeeded"),
    ]
    assert placements[0]["reason"].startswith("CapacityError: ")
    assert "is 0 Instances" in placements[2]["reason"]
    assert f"loss=0.5 in {run}" in rsctl.log(run)
    moved = [each["message"] for each in done.events if each.get("code") == "moved"]
    assert [message.rpartition(" to ")[2] for message in moved] == [
        "us-east-1, ml.m5.xlarge",
        "us-west-2, ml.c5.xlarge",
        "us-west-2, ml.m5.xlarge",
    ]
