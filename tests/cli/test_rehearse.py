"""`rsctl submit --rehearse`, up to the submission; the emulator of these tests is a fake."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.events import Show
from rsctl.runs import emulator
from rsctl.runs.home import home
from rsctl.runs.store import Store
from rsctl.target_info import BUILT_IN
from rsctl.targets.base import Plan, Submission, Unanswered
from rsctl.targets.managed.rehearsal.settings import EmulatorSettings, emulator_settings
from rsctl.targets.managed.target import ManagedTarget
from rsctl.targets.sagemaker.emulator import Behaviour as SageMakerBehaviour
from rsctl.targets.vertex.emulator import Behaviour as VertexBehaviour
from rsctl.targets.vertex.info import INFO
from tests.kit.fake_cloud import FakeBehaviour
from tests.kit.polling import wait_until

from .conftest import Cli

JOB = """
name: j
target: vertex
image: {base: "base:1", source: src}
run: {script: train.py, launcher: once}
workers: {count: 2}
"""
REHEARSE = ("submit", "job.yaml", "--rehearse", "--rehearse-with", "process")


class Seen:
    """What a submission found; it ends with `problem`."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.environment: dict[str, str] | None = None
        self.rehearsal: EmulatorSettings | None = None
        self.problem: BaseException = RsctlError(ExitCode.REFUSED, error("quota", "no machines"))

    def submit(self, submission: Submission, record: Callable[[], None], show: Show) -> None:
        record()
        plan = self.plan = submission.plan
        self.environment = emulator.environment_of(plan.run)
        self.rehearsal = emulator_settings(plan.run)
        assert emulator.is_alive(plan.run)
        raise self.problem


@pytest.fixture
def seen(rsctl: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """Vertex is the fake cloud, and nothing is sent there."""
    found = Seen()
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setitem(BUILT_IN, "vertex", "tests.cli.test_rehearse:FAKE")
    monkeypatch.setattr(ManagedTarget, "submit", lambda _, *arguments: found.submit(*arguments))
    rsctl.write(JOB)
    yield found
    if found.plan:
        emulator.end(found.plan.run)


Behaviour = FakeBehaviour
FAKE = replace(INFO, emulator=INFO.emulator._replace(emulator="tests.cli.test_rehearse:make_cloud"))


def make_cloud(folder: Path, runner: Any, project: str, region: str) -> Any:
    from tests.kit.fake_cloud import FakeCloud

    return FakeCloud(folder, runner, f"{project}/{region}")


def test_a_rehearsal_needs_no_account(rsctl: Cli, seen: Seen) -> None:
    done = rsctl(*REHEARSE, "--behaviour", "mood=bad", "--behaviour", "pace=0.5")
    assert done.code == ExitCode.REFUSED
    assert (
        "note: the job does not set these values, and this rehearsal uses: "
        "targets.vertex.project" in done.err
    )
    assert "note: this is a rehearsal on this machine, in processes of this Python" in done.err
    assert "no machines" in done.err
    assert seen.plan
    assert seen.plan.request["url"].startswith("https://us-central1-aiplatform.googleapis.com/")
    assert seen.environment
    assert seen.environment["AWS_REGION"] == "rehearsal/us-central1"
    assert seen.rehearsal
    assert seen.rehearsal.behaviour == {"pace": 0.5, "mood": "bad"}
    assert seen.rehearsal.image == seen.plan.image.tag


def test_the_emulator_of_a_refused_submission_ends(rsctl: Cli, seen: Seen) -> None:
    rsctl(*REHEARSE)
    assert seen.plan
    run = seen.plan.run
    assert wait_until(lambda: not emulator.is_alive(run))


def test_notes_are_events_too(rsctl: Cli, seen: Seen) -> None:
    events = rsctl(*REHEARSE, "-o", "json").events
    notes = [event["code"] for event in events if event["type"] == "finding"]
    assert notes[-3:] == ["rehearsal", "rehearsal", "quota"]
    assert (events[-1]["type"], events[-1]["exit_code"]) == ("result", 4)


def test_a_submission_that_is_interrupted_is_cancelled(rsctl: Cli, seen: Seen) -> None:
    seen.problem = KeyboardInterrupt()
    done = rsctl(*REHEARSE, "-o", "json")
    assert done.code == ExitCode.CANCELLED
    assert seen.plan
    run = seen.plan.run
    assert done.err.endswith(f"note: interrupted: {run} is cancelled\n")
    result = done.events[-1]
    assert [result[key] for key in ("type", "run", "state", "exit_code")] == [
        "result",
        run,
        "cancelled",
        5,
    ]
    assert rsctl("status", run, "-o", "json").json["state"] == "cancelled"
    assert wait_until(lambda: not emulator.is_alive(run))


def test_a_submission_without_an_answer_is_looked_for_later(rsctl: Cli, seen: Seen) -> None:
    lost = RsctlError(ExitCode.RESULT_UNKNOWN, error("network", "the cloud gives no answer"))
    seen.problem = Unanswered("RUN", lost)
    done = rsctl(*REHEARSE, "-o", "json")
    assert done.code == ExitCode.RESULT_UNKNOWN
    assert seen.plan
    assert done.err.endswith(
        "error: the cloud gives no answer\n"
        "warning: it is unknown whether the job of RUN exists\n"
        "    -> check its state: rsctl status RUN   cancel it: rsctl cancel RUN\n"
    )
    assert (done.events[-1]["type"], done.events[-1]["state"]) == ("result", "queued")
    assert [run.run for run in Store().unfinished()] == [seen.plan.run]


def test_data_must_be_there(rsctl: Cli, seen: Seen) -> None:
    rsctl.write(JOB + "inputs: {train: 'gs://data/set'}\n")
    done = rsctl(*REHEARSE)
    assert done.code == ExitCode.ENVIRONMENT
    assert f"put a sample of the data into {home()}/rehearsal/gs/data/set" in done.err
    assert seen.plan is None


@pytest.mark.parametrize("target", ["process", "compose"])
def test_local_targets_are_rehearsals_already(rsctl: Cli, target: str) -> None:
    rsctl.write(JOB)
    done = rsctl("submit", "job.yaml", "--rehearse", "--target", target)
    assert done.code == ExitCode.USAGE
    assert done.err == (
        f"error: target {target} already runs on this machine, so there is nothing to rehearse\n"
        "    -> omit --rehearse, or name a cloud: --target vertex or sagemaker\n"
    )


def test_behaviour_without_a_rehearsal_is_not_dropped(rsctl: Cli) -> None:
    rsctl.write(JOB)
    for option in (("--behaviour", "stockouts=1"), ("--rehearse-with", "docker")):
        done = rsctl("submit", "job.yaml", *option)
        assert done.code == ExitCode.USAGE
        assert f"{option[0]} requires --rehearse" in done.err


@pytest.mark.parametrize("target", ["vertex", "sagemaker"])
def test_behaviour_that_no_cloud_has_is_the_users_mistake(rsctl: Cli, target: str) -> None:
    rsctl.write(JOB.replace("vertex", target))
    done = rsctl(*REHEARSE, "--behaviour", "stockout=1")
    assert done.code == ExitCode.USAGE
    assert "error: --behaviour: there is no field 'stockout'; use pace, " in done.err
    done = rsctl(*REHEARSE, "--behaviour", "preemptions=often")
    assert done.code == ExitCode.USAGE
    assert "error: --behaviour: preemptions must have the type of 0, unlike 'often'" in done.err


@pytest.mark.parametrize("number", [0, 1])
def test_all_behaviours_are_documented_with_their_values(number: int) -> None:
    """In the table's rows, several names in one are separated by commas."""
    behaviours = (VertexBehaviour, SageMakerBehaviour)[number]
    text = (Path(__file__).parents[2] / "docs" / "reference" / "behaviours.md").read_text()
    documented: dict[str, str] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if line.startswith("| `") and cells[2 + number]:
            names = cells[1].replace("`", "").split(", ")
            documented |= dict(zip(names, cells[2 + number].split(", "), strict=True))
    values = asdict(behaviours())
    assert documented == {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
    }


def test_behaviour_that_is_none(rsctl: Cli, seen: Seen) -> None:
    done = rsctl(*REHEARSE, "--behaviour", "stockouts")
    assert (done.code, seen.plan) == (ExitCode.USAGE, None)
    assert "--behaviour 'stockouts' is not in the form NAME=VALUE" in done.err
    done = rsctl(*REHEARSE, "--behaviour", "stockouts=1")
    assert (done.code, seen.plan) == (ExitCode.USAGE, None)
    assert "there is no field 'stockouts'; use pace, mood" in done.err
