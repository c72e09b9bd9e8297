"""Shells that clouds offer on the nodes of a job: pages of Vertex AI, sessions of SageMaker."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rsctl.findings import JobState, RsctlError
from rsctl.runs.records import Fact, RunRecord
from rsctl.runs.store import Store
from rsctl.targets import get
from rsctl.targets.base import Shell, ShellTarget
from rsctl.targets.managed.progress import CollectorProgress

RUN = "job-aaaaaa"
NAME = "job-aaaaaa-2"


def record(target: str, url: str, body: dict[str, Any], *facts: Fact) -> RunRecord:
    """A run of two workers, in progress."""
    return RunRecord(
        run=RUN,
        name="job",
        target=target,
        url=url,
        state=JobState.RUNNING,
        created="2026-01-01T00:00:00.000000Z",
        plan={"request": {"body": body}},
        facts=list(facts),
    )


def shell(run: RunRecord, replica: str) -> Shell:
    target = get(run.target)
    assert isinstance(target, ShellTarget)
    return target.shell(run, replica)


def vertex(web_access: bool, *facts: Fact) -> RunRecord:
    body = {"jobSpec": {"enableWebAccess": True} if web_access else {}}
    return record("vertex", "vertex://p/us-central1/1", body, *facts)


def sagemaker(remote_debug: bool, *groups: str) -> RunRecord:
    resources: dict[str, Any] = {"InstanceType": "ml.m5.large", "InstanceCount": 2}
    if groups:
        resources = {
            "InstanceGroups": [
                {"InstanceGroupName": name, "InstanceType": "ml.m5.large", "InstanceCount": 1}
                for name in groups
            ]
        }
    body: dict[str, Any] = {"TrainingJobName": NAME, "ResourceConfig": resources}
    if remote_debug:
        body["RemoteDebugConfig"] = {"EnableRemoteDebug": True}
    return record("sagemaker", f"sagemaker://us-east-1/{NAME}", body)


def test_vertex_has_a_page_for_each_node() -> None:
    pages = {"worker-0": "https://x.example/0", "worker-1": "https://x.example/1"}
    run = vertex(True, Fact("web_access", "", pages))
    assert shell(run, "worker-1") == Shell(page="https://x.example/1")


def test_sagemaker_has_a_session_for_each_host() -> None:
    target = f"sagemaker-training-job:{NAME}_algo-2"
    expected = ["aws", "ssm", "start-session", "--region", "us-east-1", "--target", target]
    assert shell(sagemaker(True), "worker-1") == Shell(command=expected)


def test_the_hosts_of_several_groups_are_known_by_their_logs() -> None:
    run = sagemaker(True, "workers", "reducers")
    with pytest.raises(RsctlError) as problem:
        shell(run, "worker-0")
    [finding] = problem.value.findings
    assert finding.message == (
        "SageMaker does not name the host of worker-0, and its log has not named it yet"
    )
    store = Store()
    store.add(run)
    hosts = {"told": {f"{NAME}/algo-2-1700": "worker-0"}, "guessed": {}}
    progress = msgspec.json.encode(CollectorProgress(cursor={"hosts": hosts}))
    store.keep(RUN, [], progress, [])
    command = shell(run, "worker-0").command
    assert command is not None
    assert command[-1] == f"sagemaker-training-job:{NAME}_algo-2"


@pytest.mark.parametrize(
    ("run", "key"),
    [
        (vertex(False), "targets.vertex.web_access"),
        (sagemaker(False), "targets.sagemaker.remote_debug"),
    ],
)
def test_a_job_that_does_not_allow_shells(run: RunRecord, key: str) -> None:
    with pytest.raises(RsctlError) as problem:
        shell(run, "worker-0")
    assert problem.value.exit_code == 2
    [finding] = problem.value.findings
    assert finding.message == f"{RUN} does not allow shells in its containers"
    assert finding.remedy == f"set {key}: true, and submit the job again"


def test_a_page_that_is_not_named_yet() -> None:
    with pytest.raises(RsctlError) as problem:
        shell(vertex(True), "worker-0")
    [finding] = problem.value.findings
    assert finding.message == ("Vertex AI has not named the page with a shell on worker-0 yet")
    assert finding.remedy == f"try again when the job runs: rsctl status {RUN}"
