"""An emulated project whose nodes exist in memory: tests say what they print and how they end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from google.auth import default
from google.auth.transport.requests import AuthorizedSession

from rsctl.emulators.nodes import Listener, Node
from rsctl.emulators.vertex import Behaviour, VertexEmulator
from rsctl.emulators.vertex.log_store import utc_now
from tests.kit.polling import wait_until

Found = TypeVar("Found")
CPU = {"machineType": "n1-standard-4"}
IMAGE = "us-docker.pkg.dev/p/r/train@sha256:" + "a" * 64
REDUCER_IMAGE = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"


class FakeNodes:
    """Nodes of one job. One that is told to stop ends at once with 143."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.up: dict[str, Node] = {}
        self.history: list[str] = []
        self.is_closed = False

    def address(self, name: str) -> str:
        return name

    def port(self, name: str, wanted: int) -> int:
        return wanted

    def start(self, node: Node) -> None:
        assert node.name not in self.up
        self.history.append(f"start {_task(node.name)}")
        self.up[node.name] = node

    def stop(self, name: str, grace: float) -> None:
        self._end(name, "stop", 143)

    def kill(self, name: str) -> None:
        self._end(name, "kill", 137)

    def close(self) -> None:
        for name in list(self.up):
            self._end(name, "close", 137)
        self.is_closed = True

    def _end(self, name: str, how: str, code: int) -> None:
        if name in self.up:
            self.history.append(f"{how} {_task(name)}")
            del self.up[name]
            self.listener.ended(name, code)

    def find(self, task: str) -> Node | None:
        return next((node for name, node in self.up.items() if _task(name) == task), None)

    def node(self, task: str) -> Node:
        """The node of a task, once it is up."""
        return wait_until(lambda: self.find(task))

    def say(self, task: str, text: str, stream: str = "stdout", at: str | None = None) -> None:
        self.listener.line(self.node(task).name, stream, text, at or utc_now())

    def exit(self, task: str, code: int) -> None:
        name = self.node(task).name
        del self.up[name]
        self.listener.ended(name, code)


class FakeRunner:
    kind = "process"

    def __init__(self) -> None:
        self.jobs: dict[str, FakeNodes] = {}
        self.missing: set[str] = set()

    def has_image(self, image: str) -> bool:
        return image not in self.missing

    def nodes(self, job: str, listener: Listener, isolated: bool = False) -> FakeNodes:
        self.jobs[job] = FakeNodes(listener)
        return self.jobs[job]

    def close(self) -> None:
        for nodes in self.jobs.values():
            nodes.close()


def _task(name: str) -> str:
    """`workerpool1-0` of `cmle-training-workerpool1-0123456789-0`."""
    _, _, pool, _, number = name.split("-")
    return f"{pool}-{number}"


class Project:
    """What tests do with an emulator, as a user with google-auth's session would."""

    def __init__(self, emulator: VertexEmulator, runner: FakeRunner) -> None:
        self.emulator = emulator
        self.runner = runner
        credentials, _ = default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
        self.session = AuthorizedSession(credentials)
        self.place = f"{emulator.url}/v1/projects/rehearsal/locations/us-central1/customJobs"

    def create(self, **job: Any) -> dict[str, Any]:
        answer = self.session.post(self.place, json=job)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def start(self, *pools: dict[str, Any], **spec: Any) -> tuple[str, FakeNodes]:
        """Create a job of these pools; its id and its nodes, once it has some."""
        body = {"workerPoolSpecs": list(pools), **spec}
        job = self.create(displayName="j", jobSpec=body)["name"].rpartition("/")[2]
        return job, wait_until(lambda: self.runner.jobs.get(job))

    def get(self, job: str) -> dict[str, Any]:
        answer = self.session.get(f"{self.place}/{job}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def wait(self, job: str, state: str) -> dict[str, Any]:
        """The job, once it is in a state."""

        def look() -> dict[str, Any] | None:
            found = self.get(job)
            return found if found["state"] == f"JOB_STATE_{state}" else None

        return wait_until(look)

    def error(self, job: str) -> dict[str, Any]:
        """The job's error, once it is filled in."""
        found: dict[str, Any] = wait_until(lambda: self.get(job).get("error"))
        return found

    def logs(self, job: str, more: str = "", **body: Any) -> list[dict[str, Any]]:
        """All entries of a job, page by page."""
        wanted = {
            "resourceNames": ["projects/rehearsal"],
            "filter": f'resource.type="ml_job" AND resource.labels.job_id="{job}"{more}',
            "orderBy": "timestamp asc",
            "pageSize": 1000,
            **body,
        }
        entries: list[dict[str, Any]] = []
        while True:
            answer = self.session.post(f"{self.emulator.url}/v2/entries:list", json=wanted)
            assert answer.status_code == 200, answer.text
            entries += answer.json().get("entries", [])
            if "nextPageToken" not in answer.json():
                return entries
            wanted["pageToken"] = answer.json()["nextPageToken"]

    def said(self, job: str) -> list[str]:
        """What the service itself says of a job in its log."""
        return [e["textPayload"] for e in self.logs(job, ' resource.labels.task_name="service"')]


def pool(count: int = 1, image: str = IMAGE, **container: Any) -> dict[str, Any]:
    return {
        "machineSpec": CPU,
        "replicaCount": str(count),
        "containerSpec": {"imageUri": image, **container},
    }


def error(answer: Any) -> tuple[int, str, str]:
    body = answer.json()["error"]
    return answer.status_code, body["status"], body["message"]


_LOGS = (
    "\nTo find out more about why your job exited please check the logs: "
    "https://console.cloud.google.com/logs/viewer?project=123456789012&resource=ml_job%2Fjob_id%2F"
)


def failure(project: Project, job: str) -> tuple[int, str]:
    """The job's error, less the link to the log."""
    found = project.error(job)
    return found["code"], found["message"].partition(_LOGS)[0]


@pytest.fixture
def behaviour() -> Behaviour:
    """Hardly any waiting."""
    return Behaviour(pace=0.0005, log_reads=100_000, calls=100_000, submissions=100_000)


@pytest.fixture
def project(
    tmp_path: Path, behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    runner = FakeRunner()
    with VertexEmulator(tmp_path, runner, behaviour=behaviour) as emulator:  # type: ignore[arg-type]
        assert isinstance(emulator, VertexEmulator)
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield Project(emulator, runner)
    assert all(nodes.is_closed for nodes in runner.jobs.values())
    assert not os.path.exists(os.environ["GOOGLE_APPLICATION_CREDENTIALS"])
