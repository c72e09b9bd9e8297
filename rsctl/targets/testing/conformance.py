"""The contract of a target as tests. Every target of rsctl passes them; see docs/targets.md.

    # tests/test_mycloud.py
    from rsctl.targets.testing.conformance import TargetConformance

    class TestMyCloud(TargetConformance):
        target_name = "mycloud"
        job_keys = {"image": {"uri": "python:3.12"}, "targets": {"mycloud": {"zone": "a"}}}

        @pytest.fixture(autouse=True)
        def cloud(self, monkeypatch):  # an emulator, or another service of the target ...

The jobs of the suite run a few lines of `python3` on one node, with launcher `once`. Fixtures:
`rsctl_home` is a store of the test's own, `target` the installed target.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "rsctl.targets.testing.suite",
    "rsctl.targets.testing.key_tests",
    "rsctl.targets.testing.plan_tests",
    "rsctl.targets.testing.run_tests",
)

from rsctl.targets.testing.key_tests import KeyTests  # noqa: E402
from rsctl.targets.testing.plan_tests import PlanTests  # noqa: E402
from rsctl.targets.testing.run_tests import RunTests  # noqa: E402


class TargetConformance(KeyTests, PlanTests, RunTests):
    """Tests of one target, named by a subclass, which can set the attributes of `suite.Suite`."""
