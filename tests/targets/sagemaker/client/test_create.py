"""Creating a job: once, whatever happens to the answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import RsctlError
from rsctl.targets.base import Unanswered
from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.sagemaker.client import SageMakerService

from .fake_sagemaker import BODY, PLAN, REQUEST, RUN, FakeSageMaker, described_job

URL = f"sagemaker://us-east-1/{RUN}"


def test_a_job_is_created_and_found_again(sagemaker: FakeSageMaker) -> None:
    service = SageMakerService(Endpoints.of_environment())
    assert service.find(REQUEST, RUN) is None
    assert service.create(PLAN.run, REQUEST) == URL
    assert service.create(PLAN.run, REQUEST) == URL
    assert service.find(REQUEST, RUN) == URL
    assert list(sagemaker.jobs) == [RUN]
    assert sagemaker.jobs[RUN]["ResourceConfig"] == BODY["ResourceConfig"]


@pytest.mark.parametrize(
    "fault",
    [
        Fault("sagemaker.CreateTrainingJob", cut="answer"),
        Fault("sagemaker.CreateTrainingJob", cut="request"),
        Fault("sagemaker.CreateTrainingJob", times=3, status=400, code="ThrottlingException"),
        Fault("sagemaker.CreateTrainingJob", times=2, status=503, code="ServiceUnavailable"),
        Fault("sagemaker.CreateTrainingJob", times=1, status=500, code="InternalFailure"),
    ],
    ids=lambda fault: f"{fault.cut}{fault.code}",
)
def test_lost_answers_make_no_second_job(sagemaker: FakeSageMaker, fault: Fault) -> None:
    sagemaker.faults.add(fault)
    sagemaker.faults.add(Fault("sagemaker.DescribeTrainingJob", cut="answer"))
    assert SageMakerService(Endpoints.of_environment()).create(PLAN.run, REQUEST) == URL
    assert list(sagemaker.jobs) == [RUN]
    created = [c for c in sagemaker.calls if c == ("sagemaker.CreateTrainingJob", 200)]
    assert len(created) == (0 if fault.cut == "answer" else 1)


def test_answers_that_never_come_leave_it_open(sagemaker: FakeSageMaker) -> None:
    sagemaker.faults.add(Fault("sagemaker.CreateTrainingJob", cut="answer", times=100))
    sagemaker.faults.add(Fault("sagemaker.DescribeTrainingJob", cut="answer", times=100))
    with pytest.raises(Unanswered) as caught:
        SageMakerService(Endpoints.of_environment()).create(PLAN.run, REQUEST)
    assert [finding.code for finding in caught.value.findings] == ["network", "unanswered"]
    assert list(sagemaker.jobs) == [RUN]


def test_a_service_that_is_not_there_has_made_no_job(
    sagemaker: FakeSageMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(RsctlError) as caught:
        SageMakerService(Endpoints.of_environment()).create(PLAN.run, REQUEST)
    assert [finding.code for finding in caught.value.findings] == ["network"]


def test_a_process_killed_before_the_answer_leaves_one_job(sagemaker: FakeSageMaker) -> None:
    """The service has taken the request; the one who sent it never hears of it."""
    taken, released = threading.Event(), threading.Event()
    create = sagemaker._create

    def slow(wanted: dict[str, Any]) -> dict[str, Any]:
        answer = create(wanted)
        taken.set()
        released.wait(60)
        return answer

    operations = sagemaker._services["SageMaker"].operations
    operations["CreateTrainingJob"] = slow  # type: ignore[index]
    command = (
        "from tests.targets.sagemaker.client.test_create import *\n"
        "SageMakerService(Endpoints.of_environment()).create(PLAN.run, REQUEST)"
    )
    root = os.path.abspath(os.path.join(__file__, *[".."] * 5))
    with subprocess.Popen([sys.executable, "-c", command], cwd=root) as process:
        assert taken.wait(60)
        process.send_signal(signal.SIGKILL)
    released.set()
    assert process.returncode == -signal.SIGKILL
    assert SageMakerService(Endpoints.of_environment()).find(REQUEST, RUN) == URL
    assert SageMakerService(Endpoints.of_environment()).create(PLAN.run, REQUEST) == URL
    assert list(sagemaker.jobs) == [RUN]


def test_a_job_without_our_variables_is_known_by_its_tag(sagemaker: FakeSageMaker) -> None:
    sagemaker.jobs[RUN] = described_job({**BODY, "Environment": {}})
    sagemaker.tags = {"team": "nlp", "rsctl:run": RUN}
    assert SageMakerService(Endpoints.of_environment()).create(PLAN.run, REQUEST) == URL
