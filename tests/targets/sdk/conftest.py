"""Job files for the clouds, and an environment of a test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.job.document import read
from rsctl.plan import make_plan
from rsctl.targets import get
from rsctl.targets.base import Submission

RUN = "t-aaaaaa"
VERTEX = """
image: {uri: us-docker.pkg.dev/p/r/i:1}
workers: {count: 2, machine: n1-standard-8}
outputs: gs://bucket/out
targets:
  vertex: {project: my-project, region: us-central1, service_account: a@b.example}
"""
SAGEMAKER = """
image: {base: b, repository: 123456789012.dkr.ecr.us-east-1.amazonaws.com/i}
workers: {count: 2, machine: ml.m5.xlarge}
outputs: s3://bucket/out
targets:
  sagemaker: {region: us-east-1, role: "arn:aws:iam::123456789012:role/train"}
"""

PlanOf = Callable[[str, str], Submission]


@pytest.fixture
def plan_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlanOf:
    """The plan of a job file on a target, and its job."""
    (tmp_path / "source").mkdir()

    def make(target: str, text: str) -> Submission:
        file = tmp_path / "job.yaml"
        head = "name: t\n" if "run:" in text else "name: t\nrun: {command: [ls], launcher: once}\n"
        file.write_text(head + text)
        return make_plan(read(str(file), ()), get(target), RUN)

    monkeypatch.chdir(tmp_path / "source")
    return make
