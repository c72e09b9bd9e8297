"""`run.package` on SageMaker is the request of an estimator, of SDK version 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rsctl.findings import RsctlError
from rsctl.sdk.sagemaker import code, estimator

from .conftest import PlanOf

SDK2_PYTHON = os.environ.get("SDK2_PYTHON", "")
SCRIPT = str(Path(__file__).with_name("request_of_estimator.py"))
JOB = """
run:
  package: s3://code/sourcedir.tar.gz
  script: train.py
  args: {epochs: 3, name: a b}
  env: {NCCL_DEBUG: INFO}
image: {uri: "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6.0-gpu-py312"}
workers: {count: 2, machine: ml.g5.12xlarge, accelerator: "a10g:4", disk: 30GB}
inputs: {train: s3://data/train/}
outputs: s3://bucket/out
limits: {timeout: 1h}
targets:
  sagemaker:
    region: us-east-1
    role: "arn:aws:iam::123456789012:role/train"
    input_mode: File
    profiler: false
"""


@pytest.mark.skipif(
    not SDK2_PYTHON and os.environ.get("CI") != "true", reason="SDK2_PYTHON: see .ci/estimators"
)
def test_the_request_is_that_of_an_estimator(plan_of: PlanOf, tmp_path: Path) -> None:
    body: dict[str, Any] = dict(plan_of("sagemaker", JOB).plan.request["body"])
    (tmp_path / "job.yaml").write_text("name: t\n" + JOB)
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    environment = {**os.environ, **keys, "HOME": str(tmp_path)}
    done = subprocess.run(
        [SDK2_PYTHON, SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    by_the_sdk, by_rsctl = map(json.loads, done.stdout.splitlines()[-2:])
    assert by_the_sdk == body
    assert by_rsctl == body


def test_version_3_as_code_needs_no_variables(plan_of: PlanOf) -> None:
    job = JOB.replace("  env: {NCCL_DEBUG: INFO}\n", "").replace("    profiler: false\n", "")
    printed = code(plan_of("sagemaker", job))
    assert "environment=" not in printed
    assert """"sagemaker_submit_directory": '"s3://code/sourcedir.tar.gz"',""" in printed
    assert "source_code=" not in printed


def test_without_the_sdk_it_says_where_to_have_it(
    plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_of("sagemaker", JOB)
    monkeypatch.setitem(sys.modules, "sagemaker", None)
    with pytest.raises(RsctlError) as raised:
        estimator(str(tmp_path / "job.yaml"))
    (finding,) = raised.value.findings
    assert (finding.code, finding.remedy) == (
        "sdk",
        "in an environment of its own: pip install 'sagemaker<3' rsctl-train; version 3 has "
        "model_trainer in its place",
    )


def test_a_job_without_a_package_is_none_for_an_estimator(plan_of: PlanOf, tmp_path: Path) -> None:
    plan_of("sagemaker", JOB.replace("  package: s3://code/sourcedir.tar.gz\n", ""))
    with pytest.raises(RsctlError, match="an estimator starts a package"):
        estimator(str(tmp_path / "job.yaml"))
