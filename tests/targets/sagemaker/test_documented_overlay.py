"""The overlay in docs/guides/overlay.md, of what has no key, makes the request that it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from .rendering import render, reported

DOCUMENT = Path(__file__).parents[3] / "docs" / "guides" / "overlay.md"


def documented() -> dict[str, Any]:
    example = re.search(r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    found: dict[str, Any] = yaml.safe_load(example[1].replace("BUCKET", "bucket"))
    return found


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    machine = {"count": 3, "machine": "ml.g5.12xlarge", "accelerator": "a10g:4"}
    return {"workers": machine, "run": {"launcher": "none"}, **documented()}


def test_the_request_has_all_of_it(tmp_path: Path, job: dict[str, Any]) -> None:
    plan = render(tmp_path, job)
    body, overlay = plan["request"]["body"], job["targets"]["sagemaker"]["overlay"]
    assert body["ProfilerConfig"] == {
        "DisableProfiler": False,
        "S3OutputPath": body["OutputDataConfig"]["S3OutputPath"],
        "ProfilingIntervalInMilliseconds": 500,
        **overlay["ProfilerConfig"],
    }
    for field in ("DebugHookConfig", "DebugRuleConfigurations"):
        assert body[field] == overlay[field]
    definitions = overlay["AlgorithmSpecification"]["MetricDefinitions"]
    assert body["AlgorithmSpecification"]["MetricDefinitions"] == definitions
    groups = overlay["ResourceConfig"]["InstanceGroups"]
    assert body["ResourceConfig"]["InstanceGroups"] == groups
    assert "InstanceType" not in body["ResourceConfig"]
    assert [(pool["role"], pool["count"]) for pool in plan["pools"]] == [("worker", 3)]


def test_the_service_would_take_it(tmp_path: Path, job: dict[str, Any]) -> None:
    assert reported(tmp_path, job, "error") == []
