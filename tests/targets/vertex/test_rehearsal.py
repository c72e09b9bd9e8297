"""Whole jobs through the emulated Vertex AI, by the command line: as processes and in Docker."""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import google.auth
import pytest
from google.auth.transport.requests import AuthorizedSession

from tests.kit.deferred import Deferred
from tests.kit.docker import needs_docker
from tests.kit.loopback import keep_google_auth_here
from tests.kit.polling import DEADLINE_SECONDS, wait_until

from ..conftest import Rsctl, rehearsed

aiplatform_v1 = Deferred("google.cloud.aiplatform_v1")

REPOSITORY = Path(__file__).parents[3]
QUICKSTART = str(REPOSITORY / "examples" / "quickstart" / "job.yaml")
REHEARSE = rehearsed("vertex")
OPTIONS = {"project": "rehearsal", "region": "us-central1"}
PARENT = "projects/rehearsal/locations/us-central1"


def end_of(run: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    return [(r["replica"], r["state"], r["exit_code"]) for r in run["replicas"]]


def test_the_quickstart_with_a_reducer_pool(rsctl: Rsctl, torch_forks: dict[str, str]) -> None:
    reducers = "reducers={count: 2, disk: 100GB, env: {A: b}}"
    settings = ("workers.count=2", reducers, "run.args.epochs=5")
    settings += tuple(f"run.env.{name}={value}" for name, value in torch_forks.items())
    small = [word for setting in settings for word in ("--set", setting)]
    done = rsctl("submit", QUICKSTART, *REHEARSE, *small, "-o", "json")
    assert done.exit_code == 0, done.stderr
    result = done.result
    assert (result["state"], result["first_failure"]) == ("succeeded", None)
    assert result["metrics"]["accuracy"]["last"] > 0.95
    epochs = [e["text"] for e in done.events if e["type"] == "log" and "epoch " in e["text"]]
    assert [text.split()[1] for text in epochs] == [str(epoch) for epoch in range(1, 6)]
    run = rsctl.status("@last")
    assert run["url"].startswith("vertex://rehearsal/us-central1/")
    assert run["rehearsed"] is True
    assert end_of(run) == [
        ("worker-0", "succeeded", 0),
        ("worker-1", "succeeded", 0),
        ("reducer-0", "succeeded", None),
        ("reducer-1", "succeeded", None),
    ]
    assert run["gradients"]["operations"] > 0  # they went over the reducers
    stored = rsctl("metrics", "@last", "-o", "json", "--name", "accuracy").events
    assert len(stored) == 5
    assert rsctl.log("@last").count("epoch ") == 5
    assert "2 reducers" in rsctl.log("@last")


@pytest.mark.parametrize("launcher", ["once", "none"])
def test_a_worker_that_outlives_the_chief(rsctl: Rsctl, launcher: str) -> None:
    """The platform ends it with the chief, for which rsctl-launch on the chief has to wait."""
    job = rsctl.write_job(
        image={"base": "rsctl-test-base:1"},
        bash='echo "$CLUSTER_SPEC" | grep -q \'"type": *"workerpool0"\' || { sleep 2; exit 9; }',
        workers={"count": 2},
    )
    done = rsctl("submit", job, *REHEARSE, "-o", "json", "--set", f"run.launcher={launcher}")
    if launcher == "once":
        assert (done.exit_code, done.result["first_failure"]["exit_code"]) == (1, 9)
        return
    assert done.exit_code == 0, done.stderr
    chief, other = rsctl.status("@last")["replicas"]
    assert (chief["state"], chief["exit_code"]) == ("succeeded", 0)
    assert (other["state"], other["exit_code"]) == ("cancelled", None)
    assert other["reason"] == "ended with the chief, result not known"


def test_processes_stand_for_an_image_that_is_used_as_it_is(rsctl: Rsctl) -> None:
    """The machine is one whose accelerator has a name of its own in the API."""
    (rsctl.folder / "train.py").write_text("print('this ran')\n")
    (rsctl.folder / "own.yaml").write_text(
        "name: own\nimage: {uri: us-docker.pkg.dev/p/r/i:1}\noutputs: gs://bucket/out\n"
        "run: {script: train.py, launcher: once}\n"
        "workers: {accelerator: 'h100:8', machine: a3-megagpu-8g}\n"
    )
    done = rsctl("submit", "own.yaml", *REHEARSE, "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert "this ran" in [e["text"] for e in done.events if e["type"] == "log"]


def test_a_job_that_crashes_again_and_again_is_ended(rsctl: Rsctl) -> None:
    """Vertex AI itself would start it 23 times."""
    job = rsctl.write_job(
        image={"base": "rsctl-test-base:1"},
        bash="echo here; kill -SEGV $BASHPID",
        workers={"count": 2},
        limits={"restarts": 1},
    )
    done = rsctl("submit", job, *REHEARSE, "-o", "json")
    assert done.exit_code == 1, done.stderr
    result = done.result
    assert (result["state"], result["first_failure"]["signal"]) == ("failed", "SIGSEGV")
    assert [each["failure"]["exit_code"] for each in result["attempts"][:2]] == [139, 139]
    run = rsctl.status("@last")
    assert run["attempts"] == result["attempts"]
    assert run["reason"].endswith("more often than the limit of 1 restart allows: ended by rsctl")
    assert rsctl.log("@last").count("here") < 2 * 8


@needs_docker
def test_googles_reducers_are_stood_in_for_and_a_failure_is_found(rsctl: Rsctl) -> None:
    job = rsctl.write_job(
        image={"base": "rsctl-test-base:1"},
        bash='echo "$RSCTL_REPLICA of $RSCTL_TARGET"\n'
        "[ $RSCTL_REPLICA = worker-1 ] || exec python -m http.server 9000\n"
        "until (: < /dev/tcp/$MASTER_ADDR/9000) 2>/dev/null; do sleep 0.1; done\n"  # worker-0 is up
        "exit 3",
        workers={"count": 2, "accelerator": "t4:1"},
        reducers={"count": 1},
    )
    done = rsctl("submit", job, *rehearsed("vertex", "docker"))
    assert done.exit_code == 1, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if " of vertex" in line) == [
        "worker-0  | worker-0 of vertex",
        "worker-1  | worker-1 of vertex",
    ]
    assert "rsctl's own reducers replace Google's" in done.stderr
    run = rsctl.status("@last")
    assert (run["state"], run["first_failure"]["replica"]) == ("failed", "worker-1")
    assert run["first_failure"]["exit_code"] == 3


def test_ctrl_c_detaches_and_cancel_ends_the_job(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash="echo up; exec sleep 600", image={"base": "b"})
    process = rsctl.start("submit", job, *REHEARSE, CI="")
    run = wait_until(lambda: (rsctl.runs() or [None])[0], "the run")["run"]
    wait_until(lambda: "up" in rsctl.log(run), "its log")
    process.send_signal(signal.SIGINT)
    _, reported = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130
    assert f"{run} continues to run\n  watch it again: rsctl watch {run}\n" in reported
    assert rsctl.status(run)["state"] == "running"
    assert rsctl("cancel", run).exit_code == 0
    wait_until(lambda: rsctl.status(run)["state"] == "cancelled", "its end")
    assert rsctl.processes(run) == []


def test_an_emulator_that_is_killed_takes_the_job_with_it(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash="echo up; exec sleep 600", image={"base": "b"})
    run = rsctl.detach(job, *REHEARSE)
    rsctl.wait_for_log(run, "up")
    os.kill(
        int((rsctl.home / "runs" / run / "emulator.lock").read_text().split()[0]), signal.SIGKILL
    )
    status = wait_until(lambda: _final(rsctl.status(run)), "the end")
    assert status["state"] == "failed"
    assert status["reason"] == ("its emulator has ended; rsctl has removed the rest of the job")
    assert end_of(status) == [("worker-0", "cancelled", None)]
    wait_until(lambda: rsctl.processes(run) == [], "its processes to end")


def _final(status: dict[str, Any]) -> dict[str, Any] | None:
    return status if status["state"] in ("failed", "succeeded", "cancelled") else None


@pytest.fixture
def cloud(rsctl: Rsctl, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An emulator in the foreground, whose every third create is slow to begin."""
    for name in [n for n in os.environ if n.startswith(("GOOGLE_", "CLOUDSDK_"))]:
        monkeypatch.delenv(name)
    keep_google_auth_here(monkeypatch)
    return rsctl.emulate("vertex", "aiplatform.customJobs.create:delay=3")


def a_job(rsctl: Rsctl) -> str:
    """One that runs in an image that is used without changes, so that nothing is built."""
    job = {
        "name": "t",
        "image": {"uri": "us-docker.pkg.dev/p/r/i:1"},
        "run": {"command": ["echo", "done"], "launcher": "once"},
        "outputs": "gs://bucket/out",
        "targets": {"vertex": OPTIONS},
    }
    (rsctl.folder / "job.yaml").write_text(json.dumps(job))
    return "job.yaml"


def credentials_of(environment: dict[str, str]) -> Any:
    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    file = environment["GOOGLE_APPLICATION_CREDENTIALS"]
    return google.auth.load_credentials_from_file(file, scopes=scopes)[0]


def faults_to_come(environment: dict[str, str]) -> int:
    url = environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"].rstrip("/")
    answer = AuthorizedSession(credentials_of(environment)).get(f"{url}/emulator/state")
    return int(answer.json()["faults"])


def jobs_of(environment: dict[str, str]) -> list[Any]:
    client = aiplatform_v1.JobServiceClient(
        transport="rest",
        credentials=credentials_of(environment),
        client_options={"api_endpoint": environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"]},
    )
    return list(client.list_custom_jobs(parent=PARENT))


def test_a_killed_submission_leaves_one_job_and_is_found_again(
    rsctl: Rsctl, cloud: dict[str, str]
) -> None:
    process = rsctl.start("submit", a_job(rsctl), "-t", "vertex")
    wait_until(lambda: faults_to_come(cloud) == 0, "the request")
    process.kill()  # its request is under way: the emulator waits before it looks at it
    process.communicate()
    run = rsctl.runs()[0]["run"]
    wait_until(lambda: jobs_of(cloud), "the job")
    status = wait_until(lambda: _final(rsctl.status(run)), "its end")
    assert status["state"] == "succeeded"
    assert "done" in rsctl.log(run)
    assert len(jobs_of(cloud)) == 1


def test_a_job_that_googles_client_submitted(rsctl: Rsctl, cloud: dict[str, str]) -> None:
    client = aiplatform_v1.JobServiceClient(
        transport="rest",
        credentials=credentials_of(cloud),
        client_options={"api_endpoint": cloud["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"]},
    )
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {
            "image_uri": "us-docker.pkg.dev/p/r/i:1",
            "command": [sys.executable, "-c", "print('theirs')"],
        },
    }
    made = client.create_custom_job(
        parent=PARENT,
        custom_job={"display_name": "Their job", "job_spec": {"worker_pool_specs": [pool]}},
    )
    url = f"vertex://rehearsal/us-central1/{made.name.rpartition('/')[2]}"
    status = wait_until(lambda: _final(rsctl.status(url)), "its end")
    assert (status["state"], status["name"], status["url"]) == ("succeeded", "Their job", url)
    assert rsctl.log(url) == "worker-0 | theirs\n"


def test_a_run_goes_on_where_there_is_room(rsctl: Rsctl) -> None:
    """Two jobs of one run in one region are two, and the region after it has another quota."""
    job = rsctl.write_job(
        bash="echo loss=0.5 in $RSCTL_RUN",
        image={"base": "b"},
        workers={"machine": {"vertex": ["n1-standard-8", "n1-standard-16"]}},
        metrics={"loss": {"regex": "loss=([0-9.]+)"}},
        targets={"vertex": {"region": ["us-central1", "us-east1"]}},
    )
    scarce = ('stockouts_in=["us-central1"]', 'no_quota_in=["us-east1/n1-standard-8"]')
    behaviour = [("--behaviour", each) for each in (*scarce, "pace=0.002")]
    done = rsctl("submit", job, *REHEARSE, *sum(behaviour, ()), "-o", "json")
    assert done.exit_code == 0, done.stderr
    placements = done.result["placements"]
    assert [(p["region"], p["machine"], p["state"]) for p in placements] == [
        ("us-central1", "n1-standard-8", "failed"),
        ("us-central1", "n1-standard-16", "failed"),
        ("us-east1", "n1-standard-8", "failed"),
        ("us-east1", "n1-standard-16", "succeeded"),
    ]
    urls = [placement["url"] for placement in placements]
    assert urls[2] is None  # it was refused
    assert len({*urls}) == 4
    assert urls[3].startswith("vertex://rehearsal/us-east1/")
    for placement, following in pairwise(placements):
        assert placement["began"] <= placement["ended"] <= following["ended"]
        assert placement["ended"] <= following["began"]
    assert "Resources are insufficient in region: us-central1" in placements[0]["reason"]
    assert "exceed quota limits" in placements[2]["reason"]
    run = rsctl.status("@last")
    assert (run["url"], run["placements"]) == (urls[3], placements)
    assert f"loss=0.5 in {run['run']}" in rsctl.log("@last")
    assert done.result["metrics"]["loss"]["last"] == 0.5
    assert "us-east1, n1-standard-16 (placement 4 of 4)" in rsctl("list", "-v").stdout
    assert "placement 4  us-east1, n1-standard-16: succeeded" in rsctl("status", "@last").stdout
