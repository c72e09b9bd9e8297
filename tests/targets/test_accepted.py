"""`rsctl submit` whose cloud says nothing more: the job was accepted, continues, and is billed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit.polling import DEADLINE_SECONDS

from .conftest import Rsctl
from .vertex.test_rehearsal import OPTIONS as VERTEX

SAGEMAKER = {"region": "us-east-1", "role": "arn:aws:iam::123456789012:role/train"}
EXPIRED = {
    "vertex": "aiplatform.customJobs.get:times=9999,status=401,code=UNAUTHENTICATED",
    "sagemaker": "sagemaker.DescribeTrainingJob:times=9999,status=400,code=ExpiredTokenException",
}
NO_STATE = {
    "vertex": "aiplatform.customJobs.get:times=9999,status=403,code=PERMISSION_DENIED",
    "sagemaker": "sagemaker.DescribeTrainingJob:times=9999,status=400,code=AccessDeniedException",
}
NO_LOG = {
    "vertex": ["logging.entries.list:times=9999,status=403,code=PERMISSION_DENIED"],
    "sagemaker": [
        "logs.DescribeLogStreams:times=9999,status=400,code=AccessDeniedException",
        "logs.FilterLogEvents:times=9999,status=400,code=AccessDeniedException",
        "logs.GetLogEvents:times=9999,status=400,code=AccessDeniedException",
    ],
}
CLOUDS = pytest.mark.parametrize("cloud", ["vertex", "sagemaker"])


def job_of(rsctl: Rsctl, cloud: str, seconds: float, **keys: Any) -> str:
    is_vertex = cloud == "vertex"
    image = "us-docker.pkg.dev/p/r/i:1"
    aws_image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/i:1"
    command = ["bash", "-c", f"echo speed=7; sleep {seconds}"]
    job = {
        "name": "t",
        "target": cloud,
        "run": {"command": command, "launcher": "none"},
        "image": {"uri": image if is_vertex else aws_image},
        "outputs": "gs://bucket/out" if is_vertex else "s3://bucket/out",
        "targets": {cloud: VERTEX if is_vertex else SAGEMAKER},
        **keys,
    }
    (rsctl.folder / "job.yaml").write_text(json.dumps(job))
    return "job.yaml"


def assert_unknown(done: Any, reason: str) -> None:
    """The last event, the exit code, and what a person reads."""
    assert done.exit_code == 9, done.stderr
    result = done.result
    assert (result["exit_code"], result["state"] in ("succeeded", "failed")) == (9, False)
    run, url = result["run"], result["url"]
    codes = [event["code"] for event in done.events if event["type"] == "finding"]
    assert codes[-2:] == [reason, "result-unknown"]
    assert (
        f"error: the result of {run} is unknown; its job was accepted, continues, and is billed: "
        f"{url}\n    -> watch it: rsctl logs -f {run}" in done.stderr
    )


@CLOUDS
@pytest.mark.parametrize(
    ("fault", "reason"), [(EXPIRED, "credentials-expired"), (NO_STATE, "denied")]
)
def test_credentials_or_a_permission_that_are_gone(
    rsctl: Rsctl, cloud: str, fault: dict[str, str], reason: str
) -> None:
    rsctl.emulate(cloud, fault[cloud])
    assert_unknown(rsctl("submit", job_of(rsctl, cloud, 300), "-o", "json"), reason)
    for words in (("logs", "-f"), ("status", "--watch")):
        done = rsctl(*words, "@last")
        assert done.exit_code == 9
        assert "its job was accepted, continues, and is billed" in done.stderr


@CLOUDS
def test_a_network_that_is_gone(rsctl: Rsctl, cloud: str) -> None:
    rsctl.emulate(cloud)
    rsctl.env["RSCTL_CLOUD_PACE"] = "0.003"
    process = rsctl.start("submit", job_of(rsctl, cloud, 300), "-o", "json")
    assert process.stdout
    for printed in process.stdout:
        event = json.loads(printed)
        if event["type"] == "state" and (event["state"], event["replica"]) == ("running", None):
            break
    following = rsctl.start("logs", "-f", "@last")
    assert following.stdout
    assert following.stdout.readline() == "worker-0 | speed=7\n"
    rsctl.emulators[0].terminate()
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 9, err
    result = json.loads(out.splitlines()[-1])
    assert (result["type"], result["exit_code"], result["state"]) == ("result", 9, "running")
    assert "its job was accepted, continues, and is billed" in err
    _, err = following.communicate(timeout=DEADLINE_SECONDS)
    assert following.returncode == 9
    assert err.count("the job continues, and rsctl tries again") == 1, err


@CLOUDS
def test_no_permission_to_read_the_log(rsctl: Rsctl, cloud: str) -> None:
    rsctl.emulate(cloud, *NO_LOG[cloud])
    done = rsctl("submit", job_of(rsctl, cloud, 1), "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert (done.result["state"], done.result["exit_code"]) == ("succeeded", 0)
    warnings = [e for e in done.events if e["type"] == "finding" and e["code"] == "log-refused"]
    assert len(warnings) == 1
    done = rsctl("logs", "@last")
    assert done.exit_code == 4


def test_a_bench_leaves_a_run_of_unknown_result_to_the_next_driver(rsctl: Rsctl) -> None:
    rsctl.emulate("vertex", EXPIRED["vertex"].replace("9999", "12"))
    name = job_of(
        *(rsctl, "vertex", 2), metrics={"speed": {"regex": "speed=([0-9]+)", "goal": "max"}}
    )
    done = rsctl("bench", "run", name, "-o", "json")
    assert (done.exit_code, done.result["exit_code"]) == (9, 9), done.stderr
    [first] = rsctl.runs()
    again = [rsctl("bench", "run", name, "-o", "json") for _ in range(4)][-1]
    assert again.exit_code == 0, again.stderr
    assert [run["run"] for run in rsctl.runs()] == [first["run"]]
