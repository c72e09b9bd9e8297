"""`checks:` in plans: the variable reaches the workers of every target, or the key is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.targets import get
from tests.kit.rendering import findings_of, merged, plan_of

ROLE = "arn:aws:iam::123456789012:role/train"
_JOB: dict[str, Any] = {
    "name": "j",
    "run": {"command": ["python", "-c", "pass"], "launcher": "once"},
    "image": {"uri": "python:3.12"},
    "workers": {"count": 2},
    "limits": {"timeout": "1h"},
    "checks": {"network": True, "gpu": True, "cpu": True},
    "targets": {
        "vertex": {"project": "p", "region": "us-central1", "staging": "gs://bucket/s"},
        "sagemaker": {"region": "us-east-1", "role": ROLE, "staging": "s3://bucket/s"},
        "slurm": {"shared": "/shared/me"},
    },
}
_IMAGES = {
    "vertex": "us-docker.pkg.dev/p/train/j:1",
    "sagemaker": "123456789012.dkr.ecr.us-east-1.amazonaws.com/j:1",
}


def _job(target: str, **changes: Any) -> dict[str, Any]:
    own = {"image": {"uri": _IMAGES.get(target)}} if target in _IMAGES else {}
    job: dict[str, Any] = merged(_JOB, own)
    return dict(merged(job, changes))


@pytest.mark.parametrize(
    ("target", "value"),
    [
        ("vertex", "network=50,gpu=4,cpu"),
        ("sagemaker", "network=400,gpu=8,cpu"),
        ("slurm", "network,gpu=4,cpu"),
    ],
)
def test_workers_get_the_checks_with_the_figures_of_their_machine(
    tmp_path: Path, target: str, value: str
) -> None:
    count = 8 if target == "sagemaker" else 4
    job = _job(target, workers={"accelerator": f"a100-40gb:{count}"})
    plan = plan_of(tmp_path, job, get(target))
    assert plan["env"]["RSCTL_CHECKS"] == value
    assert "RSCTL_CHECKS" in str(plan["request"])
    assert plan["env"]["RSCTL_TOKEN"] is None


@pytest.mark.parametrize("target", ["process", "compose"])
def test_nodes_on_this_machine_get_no_figures(tmp_path: Path, target: str) -> None:
    plan = plan_of(tmp_path, _job(target), get(target))
    assert plan["env"]["RSCTL_CHECKS"] == "network,gpu,cpu"
    assert "RSCTL_CHECKS" in str(plan["request"])


def test_one_worker_has_nothing_to_authenticate(tmp_path: Path) -> None:
    job = _job("process", workers={"count": 1}, checks={"network": None})
    env = plan_of(tmp_path, job, get("process"))["env"]
    assert env["RSCTL_CHECKS"] == "gpu,cpu"
    assert "RSCTL_TOKEN" not in env


@pytest.mark.parametrize("target", ["vertex", "sagemaker", "slurm", "compose", "process"])
def test_a_job_without_the_launcher_is_refused(tmp_path: Path, target: str) -> None:
    job = _job(target, run={"launcher": "none"})
    found = [f for f in findings_of(tmp_path, job, get(target)) if f.code == "unsupported"]
    checks = [f for f in found if (f.path or "").startswith("checks.")]
    assert [f.path for f in checks] == ["checks.network", "checks.gpu", "checks.cpu"]
    message = "rsctl-launch runs this check, and launcher none does not use rsctl-launch"
    assert {(f.message, f.remedy) for f in checks} == {
        (message, "remove it, or use launcher torchrun, mpi or once")
    }


def test_one_worker_has_no_neighbours(tmp_path: Path) -> None:
    job = _job("process", workers={"count": 1})
    found = [f for f in findings_of(tmp_path, job, get("process")) if f.path == "checks.network"]
    assert [(f.severity, f.message) for f in found] == [
        ("note", "the job has one worker, which has no neighbours")
    ]
