"""One job: what it is, how it is ended, what comes of trouble."""

from __future__ import annotations

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error
from rsctl.runs.stream.events import LogEvent
from rsctl.targets.base import Pool
from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.managed.service import Fact, JobDescription, Unreachable
from rsctl.targets.sagemaker.client import SageMakerService

from .fake_sagemaker import BODY, RUN, FakeSageMaker, described_job
from .opening import opened


def test_describing_leaves_secrets_out(sagemaker: FakeSageMaker) -> None:
    sagemaker.jobs[RUN] = described_job(BODY)
    environment = {"RSCTL_RUN": RUN, "RSCTL_TOKEN": None, "MODE": "fast"}
    found = opened().describe()
    assert found == JobDescription(
        name=RUN,
        created="2026-05-28T20:26:40.000000Z",
        pools=[
            Pool(role="worker", count=4, machine="ml.g5.12xlarge", accelerator="a10g:4", gbps=40.0),
            Pool(role="reducer", count=2, machine="ml.c5n.9xlarge", gbps=50.0),
        ],
        run=RUN,
        request={
            "operation": "CreateTrainingJob",
            "region": "us-east-1",
            "body": {**BODY, "Environment": environment},
        },
    )


def test_describing_a_job_of_somebody_else(sagemaker: FakeSageMaker) -> None:
    groups = [
        {"InstanceGroupName": "data", "InstanceType": "ml.c5.9xlarge", "InstanceCount": 2},
        {"InstanceGroupName": "dnn", "InstanceType": "ml.p3.2xlarge", "InstanceCount": 1},
    ]
    body = {key: value for key, value in BODY.items() if key != "Environment"}
    body["ResourceConfig"] = {"VolumeSizeInGB": 10, "InstanceGroups": groups}
    sagemaker.jobs[RUN] = described_job(body)
    sagemaker.refuse_with["ListTags"] = ("AccessDeniedException", "not authorized")
    found = opened().describe()
    assert found.run is None
    assert found.pools == [Pool(role="worker", count=3, machine="ml.c5.9xlarge, ml.p3.2xlarge")]


def test_a_job_that_is_not_there(sagemaker: FakeSageMaker) -> None:
    finding = error(
        "not-found",
        "SageMaker has no training job bert-7f3k2a in us-east-1",
        "check its name, its region, and the account of your credentials",
    )
    for call in (opened().status, opened().describe, opened().cancel):
        with pytest.raises(RsctlError) as caught:
            call()
        assert (caught.value.exit_code, caught.value.findings) == (ExitCode.REFUSED, (finding,))


def test_no_answer_is_not_the_end(sagemaker: FakeSageMaker) -> None:
    sagemaker.jobs[RUN] = described_job(BODY)
    job = opened()
    name = "sagemaker.DescribeTrainingJob"
    sagemaker.faults.add(Fault(name, status=400, code="ThrottlingException"))
    sagemaker.faults.add(Fault(name, status=503, code="ServiceUnavailable"))
    sagemaker.faults.add(Fault(name, cut="answer"))
    for _ in range(3):
        with pytest.raises(Unreachable):
            job.status()
    assert job.status().state is JobState.STARTING
    assert sagemaker.count(name) == 4


def test_a_login_elsewhere_is_noticed(
    sagemaker: FakeSageMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sagemaker.jobs[RUN] = described_job(BODY)
    job = opened()
    good = sagemaker.environment()["AWS_ACCESS_KEY_ID"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOLD")
    with pytest.raises(RsctlError) as caught:
        job.status()
    assert caught.value.findings[0].code == "credentials"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", good)
    assert job.status().state is JobState.STARTING


@pytest.mark.parametrize(
    ("before", "after"),
    [("InProgress", "Stopping"), ("Stopping", "Stopping"), ("Completed", "Completed")],
)
def test_cancelling(sagemaker: FakeSageMaker, before: str, after: str) -> None:
    secondary = {"InProgress": "Training"}.get(before, before)
    changes = {"TrainingJobStatus": before, "SecondaryStatus": secondary}
    sagemaker.jobs[RUN] = described_job(BODY, **changes)
    sagemaker.faults.add(Fault("sagemaker.StopTrainingJob", cut="answer"))
    opened().cancel()
    assert sagemaker.jobs[RUN]["TrainingJobStatus"] == after


@pytest.mark.parametrize(
    "url",
    ["sagemaker://us-east-1", "sagemaker:///x", "vertex://a/b/c", "sagemaker://us-east-1/a_b"],
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(RsctlError) as caught:
        SageMakerService(Endpoints.of_environment()).open(url)
    assert caught.value.findings[0].message == f"{url!r} is not the URL of a training job"


def line(text: str) -> LogEvent:
    return LogEvent("2026-01-01T00:00:00.000000Z", "worker-0", "1", "stdout", text)


def test_the_network_that_nccl_tells_of(sagemaker: FakeSageMaker) -> None:
    job = opened()
    plan = {"image": {"tag": "t", "transport": "efa"}}
    sockets = job.notice(line("algo-1:71:71 [0] NCCL INFO Using network Socket"))
    efa = job.notice(line("algo-1:71:71 [0] NCCL INFO NET/OFI Selected provider is efa, fabric"))
    assert isinstance(sockets, Finding)
    assert isinstance(efa, Finding)
    assert job.notice(line("loss=0.3 step=1")) is None
    lost = "EFA is not in use: NCCL uses TCP sockets"
    assert job.facts({}, plan, [sockets]) == [Fact("network", lost, "sockets")]
    assert job.facts({}, {"image": {"transport": "none"}}, [sockets]) == []
    assert job.facts({}, plan, [efa]) == [Fact("network", "EFA", "efa")]
    assert job.facts({}, plan, []) == []
