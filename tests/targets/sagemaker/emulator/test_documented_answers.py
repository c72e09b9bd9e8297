"""The emulator beside what the service really says: its documentation and public logs."""

from __future__ import annotations

import json
from typing import Any

from rsctl.targets.base import Pool
from rsctl.targets.sagemaker.emulator import Behaviour
from rsctl.targets.sagemaker.hosts import Hosts
from tests.fixtures import real
from tests.kit.polling import wait_until
from tests.targets.sagemaker.emulator.conftest import Account, channel, client, groups

CASES = {case["name"]: case for case in real("sagemaker_transitions")}
SPOT = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
}


def transitions(account: Account) -> list[dict[str, str]]:
    found = account.describe()["SecondaryStatusTransitions"]
    return [{name: each[name] for name in ("Status", "StatusMessage")} for each in found]


def statuses(name: str) -> list[str]:
    return [each["Status"] for each in CASES[name]["transitions"]]


def given(account: Account, file: str) -> Any:
    path = account.runner.jobs["j"].inside("algo-1", f"/opt/ml/input/config/{file}.json")
    return json.loads(path.read_text())


def test_a_job_that_completes(account: Account) -> None:
    account.start().exit("algo-1")
    account.wait("j", "Completed")
    assert transitions(account) == CASES["a job that completes"]["transitions"]


def test_a_spot_interruption(account: Account, behaviour: Behaviour) -> None:
    behaviour.preemptions, behaviour.preempt_after = 1, 0
    nodes = account.start(**SPOT)
    wait_until(lambda: nodes.history.count("start algo-1") == 2)
    account.wait("j", "Training")
    nodes.exit("algo-1")
    account.wait("j", "Completed")
    found = [each["Status"] for each in transitions(account)]
    assert found == [*statuses("spot, interrupted once"), "Completed"]


def test_spot_machines_that_were_never_launched(account: Account, behaviour: Behaviour) -> None:
    behaviour.stockouts = -1
    limits = {"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 1}
    account.create(**{**SPOT, "StoppingCondition": limits})
    ended = account.wait("j", "MaxWaitTimeExceeded")
    assert ended["TrainingJobStatus"] == "Stopped"
    assert account.phases() == statuses("spot, never launched")


def test_the_words_of_each_phase_are_the_services(account: Account, behaviour: Behaviour) -> None:
    known = {each["status"]: each["messages"] for each in real("sagemaker_status_messages")}
    behaviour.stockouts = 1
    client("s3").put_object(Bucket="staging", Key="data/a", Body=b"a")
    account.create(InputDataConfig=[channel("train", "s3://staging/data/")])
    said: set[tuple[str, str]] = set()

    def has_started() -> bool:
        said.update((each["Status"], each["StatusMessage"]) for each in transitions(account))
        return bool(account.runner.jobs and account.runner.jobs["j"].up)

    wait_until(has_started)
    account.runner.jobs["j"].exit("algo-1")
    account.wait("j", "Completed")
    has_started()
    assert {status for status, _ in said} >= {"Starting", "Downloading", "Training"}
    assert [each for each in said if each[1] not in known[each[0]]] == []


def test_files_have_the_fields_of_the_real_ones(account: Account) -> None:
    configs = {case["name"]: case["value"] for case in real("sagemaker_resourceconfig")}
    channels = {case["name"]: case["value"] for case in real("sagemaker_inputdataconfig")}
    client("s3").put_object(Bucket="staging", Key="data/a", Body=b"a")
    both = [channel(name, "s3://staging/data/") for name in ("training", "validation")]
    account.start(ResourceConfig=groups(homogeneousCluster=1), InputDataConfig=both)
    newest = configs["one host"]
    assert given(account, "resourceconfig") == {
        **newest,
        "current_instance_type": "ml.c5n.9xlarge",
        "instance_groups": [{**newest["instance_groups"][0], "instance_type": "ml.c5n.9xlarge"}],
    }
    assert given(account, "inputdataconfig") == channels["two channels"]


def test_a_log_stream_is_named_as_the_real_ones_are(account: Account) -> None:
    """By the job, the host's number and an epoch: what reads real names reads these."""
    account.start().say("algo-1", "hello")

    def look() -> list[Any]:
        try:
            return account.events(logStreamNamePrefix="j/")
        except account.logs.exceptions.ResourceNotFoundException:  # the group comes with a line
            return []

    (event,) = wait_until(look)
    hosts = Hosts("j", [Pool(role="worker", count=1, machine="ml.m5.large")])
    stream = event["logStreamName"]
    assert (hosts.number(stream), hosts.replica(stream)) == (1, "worker-0")
