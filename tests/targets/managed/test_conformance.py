"""The targets in clouds pass the conformance suite against their emulators, nodes as processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rsctl.api import emulate
from rsctl.targets.testing.conformance import TargetConformance

from ..conftest import SOON


class _Emulated(TargetConformance):
    @pytest.fixture(autouse=True)
    def cloud(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        source = tmp_path / "source"
        source.mkdir()
        behaviour = {"pace": 0.01, **SOON[self.target_name]}
        with emulate(
            self.target_name, runner="process", source=source, pace=0.01, behaviour=behaviour
        ) as cloud:
            for name, value in cloud.environment.items():
                monkeypatch.setenv(name, value)
            yield


class TestVertex(_Emulated):
    target_name = "vertex"
    repository = "us-docker.pkg.dev/p/r/i"
    other_machine = "n1-standard-16"
    job_keys = {
        "image": {"uri": "us-docker.pkg.dev/p/r/i:1", "source": None},
        "outputs": "gs://bucket/out",
        "targets": {"vertex": {"project": "rehearsal", "region": "us-central1"}},
    }


class TestSageMaker(_Emulated):
    target_name = "sagemaker"
    repository = "123456789012.dkr.ecr.us-east-1.amazonaws.com/i"
    other_machine = "ml.m5.4xlarge"
    options_elsewhere = {"build_role": "an image that CodeBuild builds"}
    job_keys = {
        "image": {"uri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/i:1", "source": None},
        "outputs": "s3://bucket/out",
        "targets": {
            "sagemaker": {
                "region": "us-east-1",
                "role": "arn:aws:iam::123456789012:role/train",
            }
        },
    }
