"""The control of a rehearsed run's emulator, of both clouds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.clients.emulator_control import EmulatorControl
from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, RsctlError
from rsctl.targets.sagemaker.emulator import SageMakerEmulator
from rsctl.targets.vertex.emulator import VertexEmulator
from tests.targets.sagemaker.emulator.conftest import FakeRunner as AwsRunner
from tests.targets.vertex.emulator.conftest import FakeRunner as GoogleRunner


@pytest.mark.parametrize(
    ("emulator", "runner", "region", "wrong_key"),
    [
        (VertexEmulator, GoogleRunner, "us-central1", None),
        (SageMakerEmulator, AwsRunner, "us-east-1", {"AWS_ACCESS_KEY_ID": "wrong"}),
    ],
)
def test_it_changes_the_behaviour_of_its_own_emulator(
    tmp_path: Path, emulator: Any, runner: Any, region: str, wrong_key: dict[str, str] | None
) -> None:
    with emulator(tmp_path, runner()) as started:
        variables = started.environment()
        control = EmulatorControl(Endpoints.of_emulator(variables), region)
        assert control.behaviour()["stockouts"] == 0
        control.change({"stockouts": 2, "pace": 0.5})
        found = control.behaviour()
        assert (found["stockouts"], found["pace"]) == (2, 0.5)
        with pytest.raises(RsctlError) as caught:
            control.preempt("none")
        [finding] = caught.value.findings
        assert (caught.value.exit_code, finding.code) == (ExitCode.REFUSED, "emulator")
        wanted = "the emulator refuses POST /emulator/jobs/none:preempt: "
        assert finding.message.startswith(wanted)
        if wrong_key:
            other = EmulatorControl(Endpoints.of_emulator(variables | wrong_key), region)
            with pytest.raises(RsctlError, match="refuses GET /emulator/state"):
                other.behaviour()


def test_a_cloud_has_no_control() -> None:
    with pytest.raises(ValueError, match="only emulators have a control API"):
        EmulatorControl(Endpoints(), "us-central1")
