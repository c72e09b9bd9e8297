"""Jobs rendered for SageMaker as `rsctl plan -o json` prints them, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from rsctl.findings import Finding, RsctlError
from rsctl.plan import make_plan
from rsctl.spec.document import read
from rsctl.targets.sagemaker.target import TARGET

RUN = "job-7f3k2a"
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


def merged(value: Any, changes: Any) -> Any:
    """Mappings are merged, a None removes, all else replaces."""
    if not isinstance(value, dict) or not isinstance(changes, dict):
        return changes
    both = {**value, **{k: merged(value.get(k), v) for k, v in changes.items()}}
    return {key: item for key, item in both.items() if item is not None}


def render(folder: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """The plan of a job with these changes."""
    (folder / "job.yaml").write_text(yaml.safe_dump(job_of(changes), sort_keys=False))
    document = read(str(folder / "job.yaml"), (), {"TOKEN": "s3cret"})
    plan = make_plan(document, TARGET, RUN).plan
    shown: dict[str, Any] = msgspec.to_builtins(plan)
    return shown


def findings_of(folder: Path, changes: dict[str, Any]) -> list[Finding]:
    """All that rsctl says of a job with these changes, whether it can be planned or not."""
    (folder / "job.yaml").write_text(yaml.safe_dump(job_of(changes), sort_keys=False))
    document = read(str(folder / "job.yaml"), (), {"TOKEN": "s3cret"})
    try:
        make_plan(document, TARGET, RUN)
    except RsctlError as problem:
        return list(problem.findings)
    return document.findings


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
