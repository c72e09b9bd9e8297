"""Jobs rendered for Vertex AI as `rsctl plan -o json` prints them, without a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rsctl.findings import Finding
from rsctl.targets.vertex.target import TARGET
from tests.kit import rendering
from tests.kit.rendering import merged

IMAGE = "us-docker.pkg.dev/my-project/train/job"
URI = f"{IMAGE}:1"
GOOGLE_REDUCERS = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"


def job_of(changes: dict[str, Any]) -> dict[str, Any]:
    """A job on Vertex AI with an image that is there; `changes` are merged into it."""
    job = {
        "name": "job",
        "image": {"uri": URI},
        "run": {"command": ["python", "train.py"], "launcher": "torchrun"},
        "outputs": "gs://bucket/runs",
        "targets": {"vertex": {"project": "my-project", "region": "us-central1"}},
    }
    return merged(job, changes)


def render(folder: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """The plan of a job with these changes."""
    return rendering.plan_of(folder, job_of(changes), TARGET)


def findings_of(folder: Path, changes: dict[str, Any]) -> list[Finding]:
    """All findings of a job with these changes, whether it can be planned or not."""
    return rendering.findings_of(folder, job_of(changes), TARGET)


def workers(count: int = 1, accelerator: str | None = None, machine: str | None = None) -> Any:
    """Changes to a job's workers."""
    return {"workers": {"count": count, "accelerator": accelerator, "machine": machine}}


def vertex(**options: Any) -> Any:
    """Changes to a job's options for Vertex AI."""
    return {"targets": {"vertex": options}}


def reported(finding: Finding) -> str:
    """A finding in one line."""
    return f"{finding.severity} {finding.path}: {finding.message} -> {finding.remedy}"


def says(finding: Finding, expected: str) -> bool:
    """Whether it is `severity path: words -> words of the remedy`; `...` stands for anything."""
    subject, _, text = expected.partition(": ")
    rest = reported(finding)
    if not rest.startswith(f"{subject}: "):
        return False
    for words in re.split(r" \.\.\. | -> ", text):
        _, found, rest = rest.partition(words)
        if not found:
            return False
    return True


def mismatches(found: list[Finding], expected: list[str]) -> list[str]:
    """What was expected in vain, or was not expected."""
    missing = [words for words in expected if not any(says(f, words) for f in found)]
    surprising = [reported(f) for f in found if not any(says(f, words) for words in expected)]
    return missing + surprising
