"""Google on loopback, and an environment that leads there and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rsctl.clients.endpoints import TIME_SCALE
from tests.kit.loopback import keep_google_auth_here

from .fake_google import FakeGoogle


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGoogle]:
    for name in [n for n in os.environ if n.startswith(("GOOGLE_", "CLOUDSDK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    keep_google_auth_here(monkeypatch)
    monkeypatch.setenv(TIME_SCALE, "0.001")
    with FakeGoogle() as fake:
        assert isinstance(fake, FakeGoogle)
        for name, value in fake.environment(tmp_path).items():
            monkeypatch.setenv(name, value)
        yield fake
