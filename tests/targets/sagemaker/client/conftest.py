"""Fakes on loopback, found by unmodified boto3 through its own variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rsctl.clients.endpoints import TIME_SCALE
from rsctl.targets.sagemaker.emulator.aws_services import AwsEmulator

from .fake_logs import Clock, FakeLogs
from .fake_sagemaker import FakeSageMaker

Serve = Callable[[AwsEmulator], None]


@pytest.fixture(autouse=True)
def bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials but those that a test gives, and hardly any waiting."""
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv(TIME_SCALE, "0.01")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Has a fake answer, and boto3 find it."""
    with ExitStack() as running:

        def start(fake: AwsEmulator) -> None:
            running.enter_context(fake)
            for name, value in fake.environment().items():
                monkeypatch.setenv(name, value)

        yield start


@pytest.fixture
def clock() -> Clock:
    return Clock(1_780_000_000.0)


@pytest.fixture
def logs(serve: Serve, clock: Clock) -> FakeLogs:
    fake = FakeLogs(clock)
    serve(fake)
    return fake


@pytest.fixture
def sagemaker(serve: Serve) -> FakeSageMaker:
    fake = FakeSageMaker()
    serve(fake)
    return fake
