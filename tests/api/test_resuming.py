"""Which runs a job can resume, by the stored plans of runs on all targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from rsctl.api.resuming import require_free_checkpoints, require_same_cluster, resumed
from rsctl.api.run_list import run as find_run
from rsctl.api.submission import prepare
from rsctl.findings import ExitCode, JobState, RsctlError
from rsctl.job.job import Job, RunBlock
from rsctl.runs.store import RunRecord, Store
from rsctl.target_info import target_info

from . import recorded
from .conftest import Write

JOB = Job(name="j", run=RunBlock(script="train.py"))


def add(target: str, run: str = "old-1", **plan: Any) -> str:
    store = Store()
    how: dict[str, Any] = {"created": "2026-01-31T12:00:00.000000Z", "url": f"{target}://{run}"}
    store.add(RunRecord(run=run, name="j", target=target, state=JobState.FAILED, plan=plan, **how))
    store.close()
    return run


def resume(run: str, target: str, is_rehearsal: bool = False) -> Any:
    return resumed(JOB, run, target_info(target), is_rehearsal).checkpoints  # type: ignore[union-attr]


def refusal(run: str, target: str, is_rehearsal: bool = False) -> str:
    with pytest.raises(RsctlError) as caught:
        resume(run, target, is_rehearsal)
    assert caught.value.exit_code is ExitCode.USAGE
    [finding] = caught.value.findings
    assert (finding.code, finding.path) == ("resume", "checkpoints")
    assert finding.remedy
    return finding.message


@pytest.fixture(autouse=True)
def no_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be listed: that alone is no reason to refuse."""
    monkeypatch.setattr("rsctl.api.fetching.has_checkpoints", lambda run: None)
    monkeypatch.setattr("rsctl.api.run_list.reconcile_run", lambda *_: ExitCode.SUCCEEDED)


def test_a_bucket_is_seen_by_its_cloud_alone() -> None:
    run = add("sagemaker", request={"body": {"CheckpointConfig": {"S3Uri": "s3://b/ck"}}})
    assert resume(run, "sagemaker") == "s3://b/ck"
    assert "ran on target sagemaker, and this job runs on target vertex" in refusal(run, "vertex")
    assert "this job runs on target process" in refusal(run, "process")
    assert "was not a rehearsal, and this job is" in refusal(run, "sagemaker", True)
    assert "has no checkpoints: its job" in refusal(add("sagemaker", "bare-1"), "sagemaker")


def test_the_targets_of_this_machine_resume_runs_of_each_other(tmp_path: Path) -> None:
    env = {"RSCTL_OUTPUT_DIR": "/o", "RSCTL_CHECKPOINT_DIR": str(tmp_path)}
    run = add("process", env=env)
    assert resume(run, "process") == resume(run, "compose") == str(tmp_path)
    assert "cannot see" in refusal(run, "slurm")


def test_a_slurm_cluster_sees_its_own_file_system() -> None:
    env = {"RSCTL_OUTPUT_DIR": "/s/r/outputs", "RSCTL_CHECKPOINT_DIR": "/s/r/outputs/checkpoints"}
    run = add("slurm", env=env, request={"connection": "ssh://one", "folder": "/s/r"})
    assert resume(run, "slurm") == "/s/r/outputs/checkpoints"
    require_same_cluster({"connection": "ssh://one"}, run)
    with pytest.raises(RsctlError, match="sent by ssh://one, and this job is sent by ssh://two"):
        require_same_cluster({"connection": "ssh://two"}, run)
    assert "cannot see" in refusal(run, "process")


@pytest.mark.parametrize(
    ("target", "plan", "rehearsed", "is_free"),
    [
        ("sagemaker", {"S3Uri": "s3://b/ck/"}, False, False),
        ("sagemaker", {"S3Uri": "s3://b/ck"}, True, True),
        ("sagemaker", {"S3Uri": "s3://b/other"}, False, True),
        ("sagemaker", {}, False, True),
    ],
)
def test_a_bucket_has_one_writer(
    target: str, plan: dict[str, str], rehearsed: bool, is_free: bool
) -> None:
    writer = recorded.add("writer-1", target=target, plan=request_of({"S3Uri": "s3://b/ck"}))
    new = RunRecord(**{**asdict(writer), "run": "new-1", "plan": request_of(plan)})
    if is_free:
        return require_free_checkpoints(new, rehearsed)
    with pytest.raises(RsctlError, match="writer-1 is running, and two runs would write to s3:"):
        require_free_checkpoints(new, rehearsed)


def request_of(config: dict[str, str]) -> dict[str, Any]:
    return {"request": {"body": {"CheckpointConfig": config} if config else {}}}


@pytest.mark.parametrize(("connection", "is_free"), [("ssh://one", False), ("ssh://two", True)])
def test_a_folder_of_each_cluster_has_one_writer(connection: str, is_free: bool) -> None:
    env = {"RSCTL_OUTPUT_DIR": "/s/o", "RSCTL_CHECKPOINT_DIR": "/s/ck"}
    plan = {"env": env, "request": {"connection": "ssh://one", "folder": "/s/r"}}
    writer = recorded.add("writer-1", target="slurm", plan=plan)
    request = {"connection": connection, "folder": "/s/r2"}
    new = RunRecord(**{**asdict(writer), "run": "new-1", "plan": {**plan, "request": request}})
    if is_free:
        return require_free_checkpoints(new, False)
    with pytest.raises(RsctlError, match="two runs would write to /s/ck"):
        require_free_checkpoints(new, False)


def test_of_two_submissions_at_one_moment_the_second_does_not_start(write_job: Write) -> None:
    """Both have found the folder free before either is recorded."""
    job = write_job("sleep 300", checkpoints="ck")
    one, other = prepare(job), prepare(job)
    one.require_free_checkpoints()
    other.require_free_checkpoints()
    first = one.send()
    with pytest.raises(RsctlError, match=f"{first.id} is .*, and two runs would write to "):
        other.send()
    refused = find_run(other.run_id)
    assert refused.state is JobState.FAILED
    assert "two runs would write to" in str(refused.record.reason)
    assert not first.status().state.is_final
