"""The fake target passes the conformance suite, installed as a target of others is."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from rsctl import target_info
from rsctl.targets.testing.conformance import TargetConformance


class TestFake(TargetConformance):
    target_name = "fake"

    @pytest.fixture(autouse=True)
    def _installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = EntryPoint("fake", "rsctl.targets.testing.fake:INFO", target_info.GROUP)
        monkeypatch.setattr(target_info, "_others", lambda: {"fake": entry})
