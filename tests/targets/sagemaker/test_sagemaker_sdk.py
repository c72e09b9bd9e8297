"""Target sagemaker: what rsctl sends is what AWS's own SDK sends for the same job."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest

from .cases import CASES, Case
from .rendering import render
from .sdk import RECORD, as_text, sdk_bodies

ALONE = [case for case in CASES if case.sdk is not None]
HAS_SDK = importlib.util.find_spec("sagemaker") is not None


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.title)
def test_the_body_is_what_the_sdk_sends(case: Case, tmp_path: Path) -> None:
    recorded = json.loads(RECORD.read_text())
    assert render(tmp_path, case.spec)["request"]["body"] == recorded[case.title]


@pytest.mark.skipif(
    not HAS_SDK and os.environ.get("CI") != "true", reason="sagemaker-core is not installed"
)
def test_the_record_is_what_the_sdk_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # it reads its defaults there
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert as_text(sdk_bodies()) == RECORD.read_text()
