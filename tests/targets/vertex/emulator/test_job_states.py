"""The states of a job, and what its replicas' ends mean."""

from __future__ import annotations

import pytest

from rsctl.targets.managed.emulator.nodes import NotStarted
from rsctl.targets.vertex.emulator import Behaviour
from tests.kit.polling import wait_until
from tests.targets.vertex.emulator.conftest import (
    IMAGE,
    REDUCER_IMAGE,
    FakeNodes,
    Project,
    error,
    failure,
    pool,
)


def test_the_chiefs_end_is_the_jobs(project: Project) -> None:
    job, nodes = project.start(pool(), pool(2), pool(1))
    nodes.node("workerpool2-0")
    running = project.wait(job, "RUNNING")
    assert "endTime" not in running
    nodes.exit("workerpool1-0", 0)
    nodes.exit("workerpool0-0", 0)
    ended = project.wait(job, "SUCCEEDED")
    assert ended["createTime"] < ended["startTime"] < ended["endTime"]
    assert "error" not in ended
    assert nodes.history == [
        "start workerpool0-0",
        "start workerpool1-0",
        "start workerpool1-1",
        "start workerpool2-0",
        "stop workerpool1-1",
        "stop workerpool2-0",
    ]
    assert wait_until(lambda: nodes.is_closed)
    assert wait_until(lambda: project.emulator.is_idle)
    entries = project.logs(job)
    assert [
        (e["textPayload"], e["labels"].get("ml.googleapis.com/job_state")) for e in entries
    ] == [
        ("Job creation request has been accepted.", None),
        ("Waiting for job to be provisioned.", "PENDING"),
        ("Job is running.", "RUNNING"),
        ("Job completed successfully.", "SUCCEEDED"),
    ]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_emulator_ends_the_job(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeNodes, "start", lambda self: None)
    job = project.create(displayName="j", jobSpec={"workerPoolSpecs": [pool()]})["name"]
    ended = project.wait(job.rpartition("/")[2], "FAILED")
    message = "Internal error occurred for the current attempt."
    assert ended["error"] == {"code": 13, "message": message}


def test_a_job_is_queued_and_logs_while_it_is_pending(
    project: Project, behaviour: Behaviour
) -> None:
    behaviour.queue = behaviour.stagger = 1e6
    job = project.create(displayName="j", jobSpec={"workerPoolSpecs": [pool(), pool()]})["name"]
    job = job.rpartition("/")[2]
    assert project.get(job)["state"] == "JOB_STATE_QUEUED"
    behaviour.queue = 0.0
    other, nodes = project.start(pool(), pool())
    nodes.say("workerpool0-0", "up before the others")
    texts = wait_until(lambda: project.logs(other, ' resource.labels.task_name="workerpool0-0"'))
    assert [entry["textPayload"] for entry in texts] == ["up before the others"]
    assert project.get(other)["state"] == "JOB_STATE_PENDING"
    assert nodes.find("workerpool1-0") is None
    assert not project.emulator.is_idle


def test_a_worker_that_fails_for_good(project: Project) -> None:
    job, nodes = project.start(pool(), pool(2))
    project.wait(job, "RUNNING")
    nodes.say("workerpool1-1", "loading", "stderr")
    nodes.say("workerpool1-1", "Traceback (most recent call last):", "stderr")
    nodes.say("workerpool1-1", "ValueError: no", "stderr")
    nodes.exit("workerpool1-1", 1)
    ended = project.wait(job, "FAILED")
    assert "startTime" in ended
    assert failure(project, job) == (
        3,
        "The replica workerpool1-1 exited with a non-zero status of 1. Termination reason: Error. "
        "\nTraceback (most recent call last):\nValueError: no",
    )
    assert nodes.history[3:] == ["stop workerpool0-0", "stop workerpool1-0"]


def test_a_failed_job_is_never_seen_without_its_error(project: Project) -> None:
    job, nodes = project.start(pool())
    nodes.exit("workerpool0-0", 2)
    assert project.wait(job, "FAILED")["error"]["code"] == 3


def test_the_error_comes_some_time_after_the_end(project: Project, behaviour: Behaviour) -> None:
    behaviour.error_delay = 1e6
    job, nodes = project.start(pool())
    nodes.exit("workerpool0-0", 2)
    assert "error" not in project.wait(job, "FAILED")
    assert not project.emulator.is_idle


def test_out_of_memory(project: Project) -> None:
    job, nodes = project.start(pool())
    nodes.exit("workerpool0-0", 137)
    said = "The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137."
    assert failure(project, job) == (3, said)


def test_five_restarts_in_place_and_three_of_the_whole_job(project: Project) -> None:
    job, nodes = project.start(pool(), pool())
    for attempt in range(4):
        for _ in range(6):
            nodes.exit("workerpool1-0", 139)
        if attempt < 3:
            nodes.node("workerpool0-0")
    assert failure(project, job)[1].startswith(
        "The replica workerpool1-0 exited with a non-zero status of 139."
    )
    assert nodes.history.count("start workerpool1-0") == 24
    assert nodes.history.count("start workerpool0-0") == 4
    assert nodes.history.count("stop workerpool0-0") == 4


@pytest.mark.parametrize(
    ("scheduling", "history"),
    [
        (
            {"restartJobOnWorkerRestart": True},
            ["stop workerpool0-0", "start workerpool0-0", "start workerpool1-0"],
        ),
        ({}, ["start workerpool1-0"]),
    ],
)
def test_what_a_workers_restart_restarts(
    project: Project, scheduling: dict[str, bool], history: list[str]
) -> None:
    job, nodes = project.start(pool(), pool(), scheduling=scheduling)
    project.wait(job, "RUNNING")
    before = len(nodes.history)
    nodes.exit("workerpool1-0", 134)
    wait_until(lambda: nodes.history[before:] == history)
    project.wait(job, "RUNNING")
    nodes.exit("workerpool0-0", 0)
    project.wait(job, "SUCCEEDED")


def test_retries_can_be_off(project: Project) -> None:
    scheduling = {"disableRetries": True, "restartJobOnWorkerRestart": True}
    job, nodes = project.start(pool(), pool(), scheduling=scheduling)
    nodes.exit("workerpool1-0", 139)
    project.wait(job, "FAILED")
    assert nodes.history.count("start workerpool1-0") == 1


def test_cancelling(project: Project, behaviour: Behaviour) -> None:
    job, nodes = project.start(pool(), pool())
    project.wait(job, "RUNNING")
    assert project.session.post(f"{project.url}/{job}:cancel").json() == {}
    project.wait(job, "CANCELLED")
    assert project.error(job)["code"] == 1
    assert nodes.history[2:] == ["stop workerpool0-0", "stop workerpool1-0"]
    states = [e["labels"].get("ml.googleapis.com/job_state") for e in project.logs(job)]
    assert states[-2:] == ["CANCELLING", "CANCELLED"]
    again = project.session.post(f"{project.url}/{job}:cancel")
    name = project.get(job)["name"]
    ended = f'The CustomJob "{name}" is in state JOB_STATE_CANCELLED and cannot be canceled.'
    assert error(again)[:3] == (400, "FAILED_PRECONDITION", ended)
    behaviour.queue = 1e6
    queued = project.create(displayName="q", jobSpec={"workerPoolSpecs": [pool()]})["name"]
    queued = queued.rpartition("/")[2]
    project.session.post(f"{project.url}/{queued}:cancel")
    project.wait(queued, "CANCELLED")
    assert queued not in project.runner.jobs


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "EXPIRED"])
def test_a_timeout(project: Project, behaviour: Behaviour, state: str) -> None:
    behaviour.timeout_state = f"JOB_STATE_{state}"  # type: ignore[assignment]
    job, nodes = project.start(pool(), pool(), scheduling={"timeout": "0.05s"})
    project.wait(job, state)
    assert failure(project, job) == (4, "The job exceeded its timeout of 0.05s.")
    assert nodes.history[2:] == ["stop workerpool0-0", "stop workerpool1-0"]


def test_an_image_that_is_not_there(project: Project) -> None:
    project.runner.missing.add(IMAGE)
    job, nodes = project.start(pool())
    said = f"The replica workerpool0-0 could not be started: image {IMAGE} is not found"
    assert failure(project, job) == (13, said)
    assert nodes.history == []


def test_our_reducers_stand_in_for_googles(project: Project) -> None:
    project.runner.missing.add(REDUCER_IMAGE)
    ours = pool(args=["--launcher", "once"], env=[{"name": "RSCTL_TARGET", "value": "vertex"}])
    job, nodes = project.start(ours, pool(env=ours["containerSpec"]["env"]), pool(1, REDUCER_IMAGE))
    chief, worker, reducer = (nodes.node(f"workerpool{n}-0") for n in range(3))
    assert (reducer.image, reducer.args) == (IMAGE, ["--launcher", "once"])
    for name in ("RSCTL_REDUCER_KIND", "RSCTL_TOKEN"):
        assert chief.env[name] == worker.env[name] == reducer.env[name]
    assert reducer.env["RSCTL_REDUCER_KIND"] == "rsctl"
    assert len(reducer.env["RSCTL_TOKEN"]) == 64
    assert reducer.env["RSCTL_TARGET"] == "vertex"
    assert "ps" not in chief.env["TF_CONFIG"]
    note = (
        "rsctl emulator: Google's Reduction Server cannot run here; rsctl's own reducers and "
        "binding replace it"
    )
    assert project.service_log(job)[1] == note
    assert [shown["stand_in"] for shown in project.emulator.shown_jobs()] == ["rsctl"]


def test_they_stand_in_whatever_command_launches(project: Project) -> None:
    """Such as the one that unpacks local source in an image that is used without changes."""
    env = [{"name": "RSCTL_TARGET", "value": "vertex"}]
    ours = pool(command=["python3", "-c", ""], args=["--launcher", "once"], env=env)
    _, nodes = project.start(ours, {}, pool(1, REDUCER_IMAGE))
    assert nodes.node("workerpool2-0").entrypoint == ["python3", "-c", ""]
    assert [shown["stand_in"] for shown in project.emulator.shown_jobs()] == ["rsctl"]


def test_nothing_stands_in_where_the_workers_are_not_ours(project: Project) -> None:
    job, nodes = project.start(pool(), {}, pool(2, REDUCER_IMAGE))
    project.wait(job, "RUNNING")
    assert nodes.history == ["start workerpool0-0"]
    assert "workerpool2" in nodes.node("workerpool0-0").env["CLUSTER_SPEC"]
    assert project.service_log(job)[1].endswith("so nothing replaces it: there are no reducers")
    assert [shown["stand_in"] for shown in project.emulator.shown_jobs()] == ["absent"]


def test_only_what_has_ended_can_be_deleted(project: Project) -> None:
    job, nodes = project.start(pool())
    project.wait(job, "RUNNING")
    place = f"{project.url}/{job}"
    assert error(project.session.delete(place))[:2] == (400, "FAILED_PRECONDITION")
    nodes.exit("workerpool0-0", 0)
    project.wait(job, "SUCCEEDED")
    assert project.session.delete(place).json()["done"] is True
    assert error(project.session.get(place))[0] == 404
    assert project.service_log(job)[-1] == "Job completed successfully."


def test_web_access(project: Project) -> None:
    job, _ = project.start(pool(), pool(2), enableWebAccess=True)
    tasks = ["workerpool0-0", "workerpool1-0", "workerpool1-1"]
    assert sorted(project.wait(job, "RUNNING")["webAccessUris"]) == tasks


def test_it_is_told_how_to_behave_and_says_how_it_goes(
    project: Project, behaviour: Behaviour
) -> None:
    place, session = f"{project.emulator.url}/emulator", project.session
    job, nodes = project.start(pool(), pool(), scheduling={"strategy": "SPOT"})
    project.wait(job, "RUNNING")
    state = session.get(f"{place}/state").json()
    name = f"projects/123456789012/locations/us-central1/customJobs/{job}"
    shown = {"name": name, "state": "JOB_STATE_RUNNING", "stand_in": "none"}
    assert (state["idle"], state["jobs"]) == (False, [shown])
    assert session.post(f"{place}/behaviour", json={"late_every": 3}).json()["late_every"] == 3
    assert behaviour.late_every == 3
    for wrong in ({"late_evry": 3}, {"late_every": "3"}, {"payload": "xml"}, {"pace": -1}, []):
        assert error(session.post(f"{place}/behaviour", json=wrong))[:2] == (
            400,
            "INVALID_ARGUMENT",
        )
    assert session.post(f"{place}/jobs/{job}:preempt", json={}).status_code == 200
    wait_until(lambda: "kill workerpool1-0" in nodes.history)
    assert error(session.post(f"{place}/jobs/1:preempt", json={}))[0] == 404
    fault = {"route": "aiplatform.customJobs.get", "status": 503, "times": 1}
    assert session.post(f"{place}/faults", json=fault).status_code == 200
    answers = [session.get(f"{project.url}/{job}").status_code for _ in range(2)]
    assert answers == [503, 200]
    for wrong in ({"route": "x", "time": 3}, {"status": 503}, {**fault, "times": "many"},
                  {**fault, "cut": "all"}, {**fault, "path": "("}):  # fmt: skip
        assert error(session.post(f"{place}/faults", json=wrong))[:2] == (
            *(400, "INVALID_ARGUMENT"),
        ), wrong
    assert session.get(f"{place}/state").json()["faults"] == 0
    disabled = {**fault, "status": 403, "code": "SERVICE_DISABLED"}
    session.post(f"{place}/faults", json=disabled)
    details = session.get(f"{project.url}/{job}").json()["error"]["details"]
    assert details[0]["metadata"]["service"] == "aiplatform.googleapis.com"


def test_a_command_that_the_image_does_not_have(project: Project) -> None:
    """The text is that of the service; a container that never started has no log."""
    job, nodes = project.start(pool())
    why = 'runc create failed: unable to start container process: exec: "train": executable file'
    said = f"failed to create task for container: {why} not found in $PATH: unknown"
    nodes.say("workerpool0-0", f"Error response from daemon: {said}", "stderr")
    nodes.exit("workerpool0-0", NotStarted(127, said))
    assert failure(project, job) == (
        3,
        "The replica workerpool0-0 exited with a non-zero status of 128. Termination reason: "
        f"StartError. \n Termination log message: failed to create containerd task: {why} not "
        "found in $PATH: unknown",
    )
    assert project.logs(job, " resource.labels.task_name=workerpool0-0") == []


def test_a_program_that_prints_what_an_engine_would(project: Project) -> None:
    job, nodes = project.start(pool())
    nodes.say("workerpool0-0", "Error response from daemon: mine", "stderr")
    nodes.exit("workerpool0-0", 127)
    code, message = failure(project, job)
    assert (code, "non-zero status of 127" in message) == (3, True)
    first = next(iter(project.logs(job, " severity=ERROR")))
    assert first["textPayload"] == "Error response from daemon: mine"
