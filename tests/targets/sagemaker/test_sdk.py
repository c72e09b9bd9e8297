"""Target sagemaker: what rsctl sends is what AWS's own SDK sends for the same job."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from .cases import CASES, Case
from .rendering import render
from .sdk import RECORD

ALONE = [case for case in CASES if case.sdk is not None]
SDK_PYTHON = os.environ.get("SDK_PYTHON", "")
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
