"""What SageMaker really answers, from its documentation and public logs, as it is read here."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from rsctl.findings import JobState
from rsctl.targets.base import Pool
from rsctl.targets.sagemaker.hosts import Hosts
from rsctl.targets.sagemaker.status_transitions import attempt_of, phases_of, state_of
from tests.fixtures import real

_START = datetime(2026, 11, 22, tzinfo=timezone.utc)
_PRIMARY = {"Stopping": "Stopping", "Failed": "Failed", "Completed": "Completed"}


def answer(case: dict[str, Any], length: int) -> dict[str, Any]:
    """DescribeTrainingJob's answer after so many transitions."""
    seen = case["transitions"][:length]
    times = [_START + timedelta(minutes=number) for number in range(length + 1)]
    secondary = seen[-1]["Status"]
    is_last = length == len(case["transitions"])
    return {
        "TrainingJobStatus": case["primary"] if is_last else _PRIMARY.get(secondary, "InProgress"),
        "SecondaryStatus": secondary,
        "SecondaryStatusTransitions": [
            {**transition, "StartTime": times[number], "EndTime": times[number + 1]}
            for number, transition in enumerate(seen)
        ],
    }


@pytest.mark.parametrize("case", real("sagemaker_transitions"), ids=lambda case: str(case["name"]))
def test_transitions(case: dict[str, Any]) -> None:
    lengths = range(1, len(case["transitions"]) + 1)
    found = [state_of(answer(case, length)) for length in lengths]
    assert found == [JobState(state) for state in case["states"]]
    assert attempt_of(phases_of(answer(case, len(found)))) == case["attempt"]


@pytest.mark.parametrize(
    "case", real("sagemaker_log_streams"), ids=lambda case: str(case["stream"])
)
def test_log_streams(case: dict[str, Any]) -> None:
    """The stream of the SSM agent, of remote debugging, is no host's: it tells of no replica."""
    hosts = Hosts(case["job"], [Pool(role="worker", count=2, machine="ml.g5.xlarge")])
    number = case["host"]
    assert hosts.number(case["stream"]) == number
    assert hosts.replica(case["stream"]) == (f"worker-{number - 1}" if number else None)
