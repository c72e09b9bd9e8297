"""Emulators, and clients of the vendors' own that talk to them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.kit.builders.cloudbuild import CloudBuildEmulator
from tests.kit.builders.codebuild import CodeBuildEmulator
from tests.kit.loopback import keep_google_auth_here


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials but the emulator's, and no call to anywhere else."""
    for name in [n for n in os.environ if n.startswith(("AWS_", "GOOGLE_", "CLOUDSDK_"))]:
        monkeypatch.delenv(name)
    keep_google_auth_here(monkeypatch)


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudBuildEmulator]:
    with CloudBuildEmulator() as emulator:
        assert isinstance(emulator, CloudBuildEmulator)
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield emulator


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeBuildEmulator]:
    with CodeBuildEmulator() as emulator:
        assert isinstance(emulator, CodeBuildEmulator)
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield emulator


@pytest.fixture(autouse=True)
def _home() -> None:
    """The store is the one of every test, not that of the tests of jobs in a fake cloud."""
