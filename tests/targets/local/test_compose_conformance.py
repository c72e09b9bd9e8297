"""Target compose passes the conformance suite."""

from __future__ import annotations

from rsctl.targets.testing.conformance import TargetConformance
from tests.kit.docker import needs_docker


@needs_docker
class TestCompose(TargetConformance):
    target_name = "compose"
    options_elsewhere = {"gpus": "a job with accelerators"}
    job_keys = {"image": {"base": "rsctl-test-base:1"}}
