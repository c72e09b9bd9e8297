"""Baselines in buckets, by the emulators of Cloud Storage and S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rsctl.bench.baseline import make_baseline, read_baseline, write_baseline
from rsctl.findings import RsctlError
from rsctl.targets.sagemaker.emulator import Behaviour as AwsBehaviour
from rsctl.targets.sagemaker.emulator import SageMakerEmulator
from rsctl.targets.vertex.emulator import Behaviour as GoogleBehaviour
from rsctl.targets.vertex.emulator import VertexEmulator
from tests.bench.test_baseline import CELL, measured
from tests.kit.loopback import keep_google_auth_here
from tests.targets.sagemaker.emulator.conftest import FakeRunner as AwsRunner
from tests.targets.vertex.emulator.conftest import FakeRunner as GoogleRunner


@pytest.fixture(params=["gs", "s3"])
def bucket(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The URL of a bucket that is there."""
    keep_google_auth_here(monkeypatch)
    monkeypatch.setenv("RSCTL_CLOUD_PACE", "0.001")
    if request.param == "gs":
        emulator = VertexEmulator(tmp_path, GoogleRunner(), behaviour=GoogleBehaviour(pace=0.001))  # type: ignore[arg-type]
    else:
        emulator = SageMakerEmulator(tmp_path, AwsRunner(), behaviour=AwsBehaviour(pace=0.001))  # type: ignore[arg-type,assignment]
    with emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield f"{request.param}://staging"


def test_written_and_read_and_written_over(bucket: str) -> None:
    place = f"{bucket}/bench/base line.json"
    results = measured()
    assert write_baseline(make_baseline(results), place) == place
    assert read_baseline(place).find("throughput", CELL) == results.series[0]
    results.series[0].values = [7.0, 8.0]
    write_baseline(make_baseline(results), place)
    assert read_baseline(place).find("throughput", CELL) == results.series[0]


def test_what_is_not_there(bucket: str) -> None:
    with pytest.raises(RsctlError) as caught:
        read_baseline(f"{bucket}/none.json")
    [finding] = caught.value.findings
    assert finding.message == f"{bucket}/none.json does not exist"
    assert finding.remedy == (
        f"create one: rsctl gate BENCH --baseline {bucket}/none.json --update-baseline"
    )
    with pytest.raises(RsctlError, match="does not name an object"):
        read_baseline(bucket)


def test_a_bucket_that_is_not_there(bucket: str) -> None:
    place = f"{bucket.replace('staging', 'another')}/b.json"
    with pytest.raises(RsctlError):
        write_baseline(make_baseline(measured()), place)
    with pytest.raises(RsctlError):
        read_baseline(place)
