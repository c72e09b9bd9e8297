"""No machines, machines that go away, and no quota."""

from __future__ import annotations

import pytest

from rsctl.targets.vertex.emulator import Behaviour
from tests.kit.polling import wait_until
from tests.targets.vertex.emulator.conftest import FakeNodes, Project, error, failure, pool

STOCKOUT = (
    "Resources are insufficient in region: us-central1. Try a different region or use a different "
    "accelerator."
)


@pytest.mark.parametrize(("strategy", "tries"), [("STANDARD", 4), ("SPOT", 7)])
def test_no_machines(project: Project, behaviour: Behaviour, strategy: str, tries: int) -> None:
    behaviour.stockouts = 100
    job, nodes = project.start(pool(), scheduling={"strategy": strategy})
    assert failure(project, job) == (8, STOCKOUT)
    assert behaviour.stockouts == 100 - tries
    assert nodes.history == []
    assert project.service_log(job).count(STOCKOUT) == tries - 1


def test_machines_come_back(project: Project, behaviour: Behaviour) -> None:
    behaviour.stockouts = 2
    job, nodes = project.start(pool())
    nodes.exit("workerpool0-0", 0)
    project.wait(job, "SUCCEEDED")
    assert behaviour.stockouts == 0


def test_flex_start_waits_for_machines(project: Project, behaviour: Behaviour) -> None:
    behaviour.stockouts = -1
    machine = {
        "machineType": "a2-highgpu-1g",
        "acceleratorType": "NVIDIA_TESLA_A100",
        "acceleratorCount": 1,
    }
    pools = [{**pool(), "machineSpec": machine}]
    wait = {"strategy": "FLEX_START", "maxWaitDuration": "0.2s"}
    job, _ = project.start(*pools, scheduling=wait)
    assert failure(project, job) == (8, STOCKOUT)
    job, nodes = project.start(*pools, scheduling={**wait, "maxWaitDuration": "0s"})
    behaviour.stockouts = 0
    nodes.exit("workerpool0-0", 0)
    project.wait(job, "SUCCEEDED")


def lose(project: Project, job: str, nodes: FakeNodes, task: str, times: int) -> None:
    for number in range(1, times + 1):
        project.wait(job, "RUNNING")
        project.emulator.preempt(job, task)
        wait_until(lambda number=number: nodes.history.count(f"kill {task}") == number)  # type: ignore[misc]
        wait_until(lambda: nodes.find(task) or project.get(job)["state"] == "JOB_STATE_FAILED")


def test_a_spot_job_starts_again_after_preemption(project: Project) -> None:
    job, nodes = project.start(pool(), pool(), scheduling={"strategy": "SPOT"})
    lose(project, job, nodes, "workerpool1-0", 1)
    assert nodes.history[:6] == [
        "start workerpool0-0",
        "start workerpool1-0",
        "kill workerpool1-0",
        "stop workerpool0-0",
        "start workerpool0-0",
        "start workerpool1-0",
    ]
    first = project.get(job)["startTime"]
    nodes.exit("workerpool0-0", 0)
    assert project.wait(job, "SUCCEEDED")["startTime"] == first
    said = project.service_log(job)
    assert "The machine of workerpool1-0 was preempted." in said
    assert STOCKOUT in said


def test_a_spot_job_is_preempted_six_times(project: Project) -> None:
    job, nodes = project.start(pool(), scheduling={"strategy": "SPOT"})
    lose(project, job, nodes, "workerpool0-0", 7)
    assert failure(project, job) == (8, STOCKOUT)
    wait_until(lambda: project.emulator.is_idle)
    with pytest.raises(KeyError):
        project.emulator.preempt(job)


def test_preemption_as_a_behaviour(project: Project, behaviour: Behaviour) -> None:
    behaviour.preemptions, behaviour.preempt_after = 1, 0.0
    job, nodes = project.start(pool(), pool(), scheduling={"strategy": "SPOT"})
    wait_until(lambda: nodes.history.count("start workerpool1-0") == 2)
    assert nodes.history[2] == "kill workerpool1-0"
    assert project.wait(job, "RUNNING")
    assert behaviour.preemptions == 0
    nodes.exit("workerpool0-0", 0)
    project.wait(job, "SUCCEEDED")


def test_a_lost_machine_is_an_internal_error(project: Project) -> None:
    job, nodes = project.start(pool())
    lose(project, job, nodes, "workerpool0-0", 3)
    assert failure(project, job) == (13, "Internal error occurred for the current attempt.")
    wait_until(lambda: "Job failed." in project.service_log(job))
    assert project.service_log(job)[-2:] == [
        "Job will not be retried, max error retry attempts reached.",
        "Job failed.",
    ]


QUOTA = "custom_model_training_cpus"


def test_without_quota_a_job_stays_queued(project: Project, behaviour: Behaviour) -> None:
    behaviour.quotas = {QUOTA: 10}
    first, nodes = project.start(pool(), pool())  # 8 vCPUs
    second = project.create(displayName="s", jobSpec={"workerPoolSpecs": [pool()]})["name"]
    second = second.rpartition("/")[2]
    told = "Job is queued: its quota is used up."
    wait_until(lambda: told in project.service_log(second))
    assert project.get(second)["state"] == "JOB_STATE_QUEUED"
    nodes.exit("workerpool0-0", 0)
    project.wait(second, "RUNNING")
    assert project.service_log(second).count(told) == 1
    assert told not in project.service_log(first)


def test_without_quota_a_job_may_be_refused(project: Project, behaviour: Behaviour) -> None:
    behaviour.quotas, behaviour.over_quota = {QUOTA: 10}, "refuse"
    body = {"displayName": "j", "jobSpec": {"workerPoolSpecs": [pool(), pool(2)]}}
    assert error(project.session.post(project.url, json=body)) == (
        429,
        "RESOURCE_EXHAUSTED",
        "The following quota metrics exceed quota limits: aiplatform.googleapis.com/"
        "custom_model_training_cpus",
    )
    machine = {
        "machineType": "n1-standard-8",
        "acceleratorType": "NVIDIA_TESLA_T4",
        "acceleratorCount": 4,
    }
    behaviour.quotas = {"custom_model_training_preemptible_nvidia_t4_gpus": 3}
    spec = {"workerPoolSpecs": [{**pool(), "machineSpec": machine}]}
    project.create(displayName="j", jobSpec=spec)
    spec["scheduling"] = {"strategy": "SPOT"}  # type: ignore[assignment]
    answer = project.session.post(project.url, json={"displayName": "j", "jobSpec": spec})
    assert error(answer)[2].endswith("custom_model_training_preemptible_nvidia_t4_gpus")


def test_places_without_machines_and_without_quota(project: Project, behaviour: Behaviour) -> None:
    behaviour.no_quota_in = ["us-central1/n1-standard-4"]
    body = {"displayName": "j", "jobSpec": {"workerPoolSpecs": [pool()]}}
    assert error(project.session.post(project.url, json=body))[0] == 429
    behaviour.no_quota_in = ["us-east1", "n1-standard-8"]
    behaviour.stockouts_in = ["n1-standard-4"]
    job = project.create(**body)["name"].rpartition("/")[2]
    project.wait(job, "FAILED")
    assert failure(project, job)[0] == 8


def test_a_list_of_placements_is_of_texts(behaviour: Behaviour) -> None:
    with pytest.raises(ValueError, match=r"stockouts_in must be a list of texts, not \[1\]"):
        behaviour.change({"stockouts_in": [1]})


MEGA = {
    "machineType": "a3-megagpu-8g",
    "acceleratorType": "NVIDIA_H100_MEGA_80GB",
    "acceleratorCount": 8,
}


@pytest.mark.parametrize(
    ("strategy", "quota"),
    [
        ("STANDARD", "custom_model_training_nvidia_h100_mega_gpus"),
        ("SPOT", "custom_model_training_preemptible_nvidia_h100_mega_gpus"),
        ("SPOT", "custom_model_training_preemptible_cpus"),
        ("FLEX_START", "custom_model_training_preemptible_cpus"),
    ],
)
def test_the_quotas_of_h100_mega(
    project: Project, behaviour: Behaviour, strategy: str, quota: str
) -> None:
    behaviour.quotas, behaviour.over_quota = {quota: 1}, "refuse"
    spec = {
        "workerPoolSpecs": [{**pool(), "machineSpec": MEGA}],
        "scheduling": {"strategy": strategy},
    }
    answer = project.session.post(project.url, json={"displayName": "j", "jobSpec": spec})
    status, kind, said = error(answer)
    assert (status, kind, quota in said) == (429, "RESOURCE_EXHAUSTED", True), said
