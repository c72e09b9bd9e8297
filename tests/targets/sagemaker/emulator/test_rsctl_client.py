"""rsctl's own client of SageMaker against the emulator: one job from its creation to its log."""

from __future__ import annotations

import pytest

from rsctl.clients.endpoints import TIME_SCALE, Endpoints
from rsctl.findings import JobState, RsctlError
from rsctl.runs.stream.events import LogEvent, now
from rsctl.targets.base import ImagePlan, Plan, Pool
from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.managed.service import CloudJob, Unreachable
from rsctl.targets.sagemaker.client import SageMakerService
from rsctl.targets.sagemaker.emulator import Behaviour
from tests.kit.polling import wait_until
from tests.targets.sagemaker.emulator.conftest import Account, FakeNodes, body, groups

POOLS = [Pool(role="worker", count=2), Pool(role="reducer", count=1)]
RUN = "bert-7f3k2a"
REPLICAS = {"algo-1": "worker-0", "algo-2": "reducer-0", "algo-3": "worker-1"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIME_SCALE, "0.001")


def submitted(account: Account) -> tuple[CloudJob, FakeNodes]:
    wanted = body(RUN, ResourceConfig=groups(workers=2, reducers=1), Environment={"RSCTL_RUN": RUN})
    request = {"operation": "CreateTrainingJob", "region": "us-east-1", "body": wanted}
    plan = Plan(
        run=RUN,
        target="sagemaker",
        image=ImagePlan(tag=None, transport="none"),
        pools=POOLS,
        world_size=2,
        env={},
        request=request,
        findings=[],
    )
    service = SageMakerService(Endpoints.of_environment())
    url = service.create(plan.run, request)
    assert url == service.find(request, RUN) == f"sagemaker://us-east-1/{RUN}"
    account.wait(RUN, "Training")
    return service.open(url), account.runner.jobs[RUN]


def read(job: CloudJob, ended: str | None = None) -> list[LogEvent]:
    log = job.log({}, POOLS, now()[:10] + "T00:00:00.000000Z")
    if ended:
        log.finish(ended)
    found: list[LogEvent] = []

    def is_done() -> bool:
        found.extend(log.read() or ())
        return log.is_complete

    wait_until(is_done)
    return found


def test_a_job_and_its_log_on_a_bad_day(account: Account, behaviour: Behaviour) -> None:
    behaviour.late_every, behaviour.late_by, behaviour.twice_every = 3, 40.0, 4
    behaviour.shuffle, behaviour.empty_every = True, 3
    job, nodes = submitted(account)
    assert job.status().state is JobState.RUNNING
    for host, replica in REPLICAS.items():
        nodes.say(host, f'{{"rsctl": "node", "replica": "{replica}", "host": "{host}"}}')
    for number in range(300):
        nodes.say(list(REPLICAS)[number % 3], f"line {number}")
    fault = Fault("logs.FilterLogEvents", status=400, code="InvalidParameterException",
                  message="The specified nextToken is invalid.")  # fmt: skip
    for host in REPLICAS:
        nodes.exit(host)
    account.wait(RUN, "Completed")
    status = job.status()
    assert status.state is JobState.SUCCEEDED
    account.emulator.faults.add(fault)
    with pytest.raises(RsctlError, match="nextToken"):
        read(job, status.time)
    lines = read(job, status.time)
    said = {(line.replica, line.text) for line in lines if line.text.startswith("line")}
    wanted = {(list(REPLICAS.values())[number % 3], f"line {number}") for number in range(300)}
    assert said == wanted
    assert len(lines) == 303


def test_a_job_is_cancelled(account: Account) -> None:
    job, _ = submitted(account)
    job.cancel()
    account.wait(RUN, "Stopped")
    assert job.status().state is JobState.CANCELLED
    job.cancel()


def test_a_failure_names_its_replica(account: Account) -> None:
    job, nodes = submitted(account)
    said = "worker-1, rank 1, ended with exit code 3\nValueError: no data"
    nodes.inside("algo-3", "/opt/ml/output/failure").write_text(said)
    nodes.exit("algo-3", 3)
    account.wait(RUN, "Failed")
    (failure,) = job.status().failed
    assert (failure.replica, failure.rank, failure.exit_code) == ("worker-1", 1, 3)


def test_no_answer_is_no_end(account: Account) -> None:
    job, _ = submitted(account)
    fault = Fault("sagemaker.DescribeTrainingJob", status=503, code="ServiceUnavailable")
    account.emulator.faults.add(fault)
    with pytest.raises(Unreachable):
        job.status()
    assert job.status().state is JobState.RUNNING
