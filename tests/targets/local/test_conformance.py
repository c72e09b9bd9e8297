"""The targets on this machine pass the conformance suite."""

from __future__ import annotations

from rsctl.targets.testing.conformance import TargetConformance


class TestProcess(TargetConformance):
    target_name = "process"
