"""Target sagemaker: what rsctl sends is what AWS's own SDK sends for the same job."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rsctl.findings import RsctlError
from rsctl.plan import make_plan
from rsctl.targets.sagemaker.sdk import code
from rsctl.targets.sagemaker.target import TARGET
from tests.kit.rendering import RUN, read_job

from .cases import CASES, Case
from .rendering import REGISTRY, job_of, render, sagemaker
from .sdk import RECORD

ALONE = [case for case in CASES if case.sdk is not None]
SDK_PYTHON = os.environ.get("SDK_PYTHON", "")
CHIEF = {"workers": {"count": 2}, "chief": {"args": ["--chief"]}}
REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.title)
def test_the_body_is_what_the_sdk_sends(case: Case, tmp_path: Path) -> None:
    recorded = json.loads(RECORD.read_text())
    assert render(tmp_path, case.spec)["request"]["body"] == recorded[case.title]


@pytest.mark.skipif(
    not SDK_PYTHON and os.environ.get("CI") != "true", reason="SDK_PYTHON: see .ci/sdks"
)
def test_the_record_is_what_the_sdk_sends(tmp_path: Path) -> None:
    done = subprocess.run(
        [SDK_PYTHON, "-m", "tests.targets.sagemaker.sdk", "--print"],
        cwd=REPOSITORY,
        env={**os.environ, "HOME": str(tmp_path), "AWS_DEFAULT_REGION": "us-east-1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == RECORD.read_text(), done.stderr


@pytest.mark.parametrize(
    ("changes", "arguments"),
    [
        (CHIEF, '{"chief": ["--launcher", "torchrun"'),
        ({"roles": {"ps": {"args": ["--ps"]}}}, '{"ps": ["--launcher", "once"'),
    ],
)
def test_as_code_for_the_sdk(changes: dict[str, Any], arguments: str, tmp_path: Path) -> None:
    """An image of ours finds all arguments in the hyperparameters."""
    (tmp_path / "src").mkdir()
    image = {"uri": None, "base": "b:1", "source": "src", "repository": f"{REGISTRY}/job"}
    job = job_of({"image": image, **changes, **sagemaker(staging="s3://bucket/staging")})
    text = code(make_plan(read_job(tmp_path, job), TARGET, RUN))
    compile(text, "code", "exec")
    assert text.count("InstanceGroup(") == 2
    assert f'"rsctl_arguments_0": \'{arguments}' in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (CHIEF, "arguments or variables of only the chief"),
        ({"roles": {"ps": {}}}, "programs of roles"),
    ],
)
def test_what_is_no_command_of_the_sdk(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    submission = make_plan(read_job(tmp_path, job_of(changes)), TARGET, RUN)
    with pytest.raises(RsctlError, match=message):
        code(submission)
