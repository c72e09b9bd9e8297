"""Jobs rendered for SageMaker as `rsctl plan -o json` prints them, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rsctl.findings import Finding
from rsctl.targets.sagemaker.target import TARGET
from tests.kit import rendering
from tests.kit.rendering import merged

REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
URI = f"{REGISTRY}/job:1"
ROLE = "arn:aws:iam::123456789012:role/train"


def job_of(changes: dict[str, Any]) -> dict[str, Any]:
    """A job on SageMaker with an image that is there; `changes` are merged into it."""
    job = {
        "name": "job",
        "image": {"uri": URI},
        "run": {"command": ["python", "train.py"]},
        "outputs": "s3://bucket/runs",
        "targets": {"sagemaker": {"region": "us-east-1", "role": ROLE}},
    }
    return merged(job, changes)


def render(folder: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """The plan of a job with these changes."""
    return rendering.plan_of(folder, job_of(changes), TARGET)


def findings_of(folder: Path, changes: dict[str, Any]) -> list[Finding]:
    """All findings of a job with these changes, whether it can be planned or not."""
    return rendering.findings_of(folder, job_of(changes), TARGET)


def sagemaker(**options: Any) -> dict[str, Any]:
    """Options of the target."""
    return {"targets": {"sagemaker": options}}


def shown(finding: Finding) -> str:
    """A finding in one text: its key, what is wrong, and what to do."""
    remedy = f" -> {finding.remedy}" if finding.remedy else ""
    return f"{finding.severity} {finding.path}: {finding.message}{remedy}"


def reported(folder: Path, changes: dict[str, Any], *severities: str) -> list[str]:
    wanted = severities or ("error", "warning")
    return [shown(f) for f in findings_of(folder, changes) if f.severity in wanted]
