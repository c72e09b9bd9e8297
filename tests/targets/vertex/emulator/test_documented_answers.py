"""The emulator beside what the service really says: its documentation and public logs."""

from __future__ import annotations

from typing import Any

from rsctl.targets.vertex.emulator import Behaviour
from rsctl.targets.vertex.results import results_of
from tests.fixtures import real
from tests.kit.polling import wait_until
from tests.targets.vertex.emulator.conftest import Project, pool

ENTRIES = {case["name"]: case["entry"] for case in real("vertex_log_entries")}


def last(project: Project, job: str, task: str) -> dict[str, Any]:
    def look() -> list[dict[str, Any]]:
        return project.logs(job, f' resource.labels.task_name="{task}"')

    return wait_until(look)[-1]


def test_what_the_service_says_of_the_end(project: Project) -> None:
    job, nodes = project.start(pool())
    nodes.exit("workerpool0-0", 0)
    project.wait(job, "SUCCEEDED")
    said = ENTRIES["the service says that the job has ended"]
    found = last(project, job, "service")
    same = ("severity", "labels", "textPayload")
    assert {name: found[name] for name in same} == {name: said[name] for name in same}
    assert found.keys() >= said.keys()


def test_a_line_as_the_logging_agent_stores_it(project: Project, behaviour: Behaviour) -> None:
    behaviour.payload = "json"
    job, nodes = project.start(pool())
    line = ENTRIES["a line of stderr, with the agent's fields"]
    nodes.say("workerpool0-0", line["jsonPayload"]["message"], stream="stderr")
    found = last(project, job, "workerpool0-0")
    assert found["jsonPayload"] == line["jsonPayload"]
    assert found.keys() >= line.keys()


def test_what_a_service_says_that_is_disabled(project: Project) -> None:
    (said,) = real("google_error_details")
    job, _ = project.start(pool())
    fault = {"route": "aiplatform.customJobs.get", "code": "SERVICE_DISABLED"}
    place = f"{project.emulator.url}/emulator/faults"
    assert project.session.post(place, json={**fault, "status": 403, "times": 1}).status_code == 200
    (found,) = project.session.get(f"{project.url}/{job}").json()["error"]["details"]
    assert (found["reason"], found["domain"]) == (said["reason"], said["domain"])
    metadata = said["metadata"]
    assert found["metadata"]["service"] == metadata["service"]
    assert found["metadata"]["consumer"] == metadata["consumer"].replace(
        said["project"], "rehearsal"
    )


def test_folders_of_a_job(project: Project) -> None:
    """The variables in its containers, and where `rsctl status` says that its results are."""
    (case,) = real("vertex_environment")
    base = {"baseOutputDirectory": {"outputUriPrefix": case["base"]}}
    _, nodes = project.start(pool(), **base)
    env = nodes.node("workerpool0-0").env
    assert {name: env.get(name) for name in case["variables"]} == case["variables"]
    spec = {"workerPoolSpecs": [pool()], "tensorboard": "t", **base}
    found = results_of({"jobSpec": spec})
    assert [f"{found[name]}/" for name in ("model", "checkpoints", "tensorboard")] == list(
        case["variables"].values()
    )
