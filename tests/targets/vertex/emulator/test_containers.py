"""Jobs whose nodes really run: as processes, and in containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.managed.emulator.nodes import ANY_IMAGE, NodeRunner, Program
from rsctl.targets.managed.emulator.nodes.runners import make_runner
from rsctl.targets.vertex.emulator import Behaviour, VertexEmulator
from tests.kit.docker import BASE, needs_docker
from tests.kit.packages import DDP_SCRIPT
from tests.kit.polling import wait_until
from tests.targets.vertex.emulator.conftest import REDUCER_IMAGE, Project, pool

LONG = 120.0


@pytest.fixture
def runner(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeRunner]:
    monkeypatch.setenv("RSCTL_HOME", str(tmp_path / "home"))
    made = make_runner(kind, {ANY_IMAGE: Program(DDP_SCRIPT.parent)})
    yield made
    made.close()


@pytest.fixture
def real(
    runner: NodeRunner, behaviour: Behaviour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    """An emulated project whose nodes really run."""
    behaviour.grace = 5.0
    with VertexEmulator(tmp_path / "cloud", runner, behaviour=behaviour) as emulator:
        assert isinstance(emulator, VertexEmulator)
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield Project(emulator, runner)  # type: ignore[arg-type]


def run(real: Project, *pools: dict[str, Any], **spec: Any) -> tuple[str, dict[str, Any]]:
    """Create a job; its id and what it is in the end, with its error."""
    body = {"workerPoolSpecs": list(pools), **spec}
    job = real.create(displayName="j", jobSpec=body)["name"].rpartition("/")[2]
    wait_until(lambda: real.emulator.is_idle, seconds=LONG)
    return job, real.get(job)


def lines(real: Project, job: str, task: str) -> list[str]:
    entries = real.logs(job, f' resource.labels.task_name="{task}"')
    return [entry.get("textPayload", "") for entry in entries]


kinds = pytest.mark.parametrize("kind", ["process", pytest.param("docker", marks=needs_docker)])


@kinds
def test_nodes_have_their_place_and_their_bucket(real: Project, tmp_path: Path) -> None:
    script = (
        "import json, os, pathlib; spec = json.loads(os.environ['CLUSTER_SPEC']);"
        "rank = os.environ['RANK']; print('rank', rank, spec['task']['type']);"
        "root = os.environ.get('RSCTL_ROOT', '');"
        "pathlib.Path(os.environ['OUT'], rank).write_text('done');"
        "peer = pathlib.Path(os.environ['OUT'], '1');"
        "[None for _ in iter(lambda: rank == '0' and not peer.exists(), False)]"
    )
    mine = pool(
        image=BASE,
        command=["python", "-c", script],
        env=[{"name": "OUT", "value": "/gcs/results"}],
    )
    job, ended = run(real, mine, mine)
    assert ended["state"] == "JOB_STATE_SUCCEEDED"
    assert lines(real, job, "workerpool0-0") == ["rank 0 workerpool0"]
    assert lines(real, job, "workerpool1-0") == ["rank 1 workerpool1"]
    written = sorted(file.name for file in (tmp_path / "cloud" / "gs" / "results").iterdir())
    assert written == ["0", "1"]


@kinds
def test_a_failure_says_which_replica_and_why(real: Project) -> None:
    waiting = pool(image=BASE, command=["sleep", "600"])
    failing = pool(image=BASE, command=["python", "-c", "raise ValueError('no data')"])
    _, ended = run(real, waiting, failing)
    assert ended["state"] == "JOB_STATE_FAILED"
    message = ended["error"]["message"]
    assert message.startswith(
        "The replica workerpool1-0 exited with a non-zero status of 1. Termination reason: Error. "
        "\nTraceback (most recent call last):\n"
    )
    assert "ValueError: no data\nTo find out more about why your job exited" in message


@kinds
def test_a_crash_restarts_in_place(real: Project) -> None:
    script = "test -e $STATE/once && echo again || { touch $STATE/once; exit 134; }"
    state = [{"name": "STATE", "value": "/gcs/state"}]
    job, ended = run(real, pool(image=BASE, command=["bash", "-c", script], env=state))
    assert ended["state"] == "JOB_STATE_SUCCEEDED"
    assert lines(real, job, "workerpool0-0") == ["again"]
    assert "Replica workerpool0-0 exited with status 134; it restarts." in real.service_log(job)


@pytest.mark.parametrize("kind", ["process"])
def test_a_script_trains_over_reducers_that_stand_in(
    real: Project, torch_forks: dict[str, str]
) -> None:
    args = ["--launcher", "torchrun", "--processes", "1", "--python"]
    ours = {
        "args": [*args, "--", DDP_SCRIPT.name],
        "env": [
            {"name": "RSCTL_TARGET", "value": "vertex"},
            {"name": "RSCTL_RUN", "value": "quickstart-abc123"},
            *({"name": name, "value": value} for name, value in torch_forks.items()),
        ],
    }
    job, ended = run(real, pool(**ours), pool(**ours), pool(2, REDUCER_IMAGE))
    assert ended["state"] == "JOB_STATE_SUCCEEDED", real.logs(job)
    assert [shown["stand_in"] for shown in real.emulator.shown_jobs()] == ["rsctl"]
    chief = lines(real, job, "workerpool0-0")
    assert any("2 workers, 2 reducers" in line for line in chief), chief
    payloads = [entry.get("jsonPayload", {}) for entry in real.logs(job)]
    told = {payload["rsctl"] for payload in payloads if "rsctl" in payload}
    assert "reducer" in told
