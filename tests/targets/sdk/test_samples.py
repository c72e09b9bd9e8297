"""Jobs of AWS's samples: what rsctl sends for their job files is what the SDK's estimators send."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from rsctl.plan import make_plan
from rsctl.targets import get
from tests.kit.rendering import merged, read_job

from .samples import COMMON, SAMPLES, Sample

RECORD = Path(__file__).with_name("sample_requests.json")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.title)
def test_the_body_is_what_the_estimator_sends(sample: Sample, tmp_path: Path) -> None:
    job = merged(COMMON, yaml.safe_load(sample.job))
    body = make_plan(read_job(tmp_path, job), get("sagemaker"), "t-aaaaaa").plan.request["body"]
    if sample.estimator == "sagemaker.estimator.Estimator":  # rsctl's own variables are there too
        assert all(name.startswith("RSCTL_") for name in body.pop("Environment"))
    assert body == json.loads(RECORD.read_text())[sample.title]
