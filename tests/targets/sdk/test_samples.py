"""Jobs of AWS's samples: what rsctl sends for their job files is what the SDK's estimators send."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from rsctl.plan import make_plan
from rsctl.targets import get
from tests.kit.rendering import merged, read_job

from .samples import COMMON, SAMPLES, Sample

RECORD = Path(__file__).with_name("sample_requests.json")
REPOSITORY = Path(__file__).parents[3]
SDK2_PYTHON = os.environ.get("SDK2_PYTHON", "")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.title)
def test_the_body_is_what_the_estimator_sends(sample: Sample, tmp_path: Path) -> None:
    job = merged(COMMON, yaml.safe_load(sample.job))
    body = make_plan(read_job(tmp_path, job), get("sagemaker"), "t-aaaaaa").plan.request["body"]
    if sample.estimator == "sagemaker.estimator.Estimator":  # rsctl's own variables are there too
        assert all(name.startswith("RSCTL_") for name in body.pop("Environment"))
    assert body == json.loads(RECORD.read_text())[sample.title]


@pytest.mark.skipif(
    not SDK2_PYTHON and os.environ.get("CI") != "true", reason="SDK2_PYTHON: see .ci/estimators"
)
def test_the_record_is_what_estimators_send(tmp_path: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "HOME": str(tmp_path)}
    done = subprocess.run(
        [SDK2_PYTHON, "-m", "tests.targets.sdk.requests_of_samples", str(tmp_path / "made.json")],
        cwd=REPOSITORY,
        env={**os.environ, **keys},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "made.json").read_text() == RECORD.read_text()
