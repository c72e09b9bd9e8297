"""Google on loopback, and an environment that leads there and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.oauth2 import service_account

from rsctl.cloud.pace import PACE

from .fake_google import FakeGoogle


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGoogle]:
    for name in [n for n in os.environ if n.startswith(("GOOGLE_", "CLOUDSDK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    # It would ask a service outside for the locations that a service account may call.
    monkeypatch.setattr(
        service_account.Credentials,
        "_is_regional_access_boundary_lookup_required",
        lambda self: False,
        raising=False,
    )
    monkeypatch.setenv(PACE, "0.001")
    with FakeGoogle() as fake:
        assert isinstance(fake, FakeGoogle)
        for name, value in fake.environment(tmp_path).items():
            monkeypatch.setenv(name, value)
        yield fake
