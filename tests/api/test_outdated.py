"""Runs that are brought up to date, forgotten, and shown where they are."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl import api
from rsctl.api import forgetting, results
from rsctl.api import reconcile as outdated
from rsctl.api.job_file import make_submission
from rsctl.api.submission import PreparedRun
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.home import run_directory
from rsctl.runs.store import Store
from rsctl.runs.store_errors import DiskFull
from rsctl.runs.stream.events import StateEvent
from rsctl.runs.unknown_result import ResultUnknown
from rsctl.targets import get

from .recorded import add, at, refused


def test_a_run_that_goes_on_is_forgotten_by_force_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "reconcile_run", lambda *_: ExitCode.SUCCEEDED)
    add()
    with pytest.raises(RsctlError) as caught:
        api.forget_run("job-1")
    assert refused(caught.value) == (
        "job-1 is running, according to its last known state -> cancel it: rsctl cancel job-1   or "
        "remove it without cancelling: --force"
    )
    found = api.forget_run("job-1", force=True)
    assert (found.run, found.kept, found.left) == ("job-1", [], None)
    url = "vertex://p/us-central1/7"
    add("cloud-1", "running", "vertex", url=url)
    assert api.forget_run("cloud-1", force=True).left == url
    add("over-1", "succeeded", "vertex", url=url)
    assert api.forget_run("over-1").left is None


class Asked:
    """A target that notes which runs it is asked of, and refuses."""

    def __init__(self, problem: Exception | None) -> None:
        self.problem, self.runs, self.released = problem, list[str](), list[str]()

    def reconcile(self, run: str) -> None:
        self.runs.append(run)
        if self.problem:
            raise self.problem

    def release(self, run: str) -> None:
        self.released.append(run)
        raise KeyError("it was never taken")


LOGGED_OUT = RsctlError(ExitCode.ENVIRONMENT, error("credentials", "log in"))


@pytest.mark.parametrize(
    ("problem", "asked", "told"),
    [
        (None, ["a-1", "b-1", "c-1"], {}),
        (LOGGED_OUT, ["a-1", "b-1"], {"a-1": ["log in"], "b-1": ["log in"], "c-1": []}),
        (
            RsctlError(ExitCode.REFUSED, error("x", "no")),
            ["a-1", "b-1", "c-1"],
            {"a-1": ["no"], "b-1": ["no"], "c-1": ["no"]},
        ),
        (
            KeyError("x"),
            ["a-1", "b-1", "c-1"],
            {key: ["KeyError: 'x'"] for key in ["a-1", "b-1", "c-1"]},
        ),
        (
            OSError(13, "Permission denied", "/x"),
            ["a-1", "b-1", "c-1"],
            {key: ["/x: Permission denied"] for key in ["a-1", "b-1", "c-1"]},
        ),
    ],
)
def test_a_cloud_that_cannot_be_asked_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, problem: Exception | None, asked: list[str], told: Any
) -> None:
    """Runs on this machine are asked one by one."""
    target = Asked(problem)
    monkeypatch.setattr(outdated, "get", lambda _: target)
    runs = [
        add("a-1"),
        *(add(n, "running", "vertex", url=f"vertex://p/r/{n}") for n in ("b-1", "c-1")),
    ]
    found: dict[str, list[str]] = {}

    def note(run: str, findings: tuple[Finding, ...]) -> None:
        found[run] = [finding.message for finding in findings]
        assert all(finding.severity == "warning" for finding in findings)

    outdated.reconcile_all(runs, note)
    assert (target.runs, target.released, found) == (asked, asked, told)


def test_a_list_of_one_target_asks_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Asked(None)
    monkeypatch.setattr(outdated, "get", lambda _: target)
    add("a-1")
    add("b-1", "running", "vertex", url="vertex://p/r/7")
    assert [run.id for run in api.runs(target="process")] == target.runs == ["a-1"]
    with pytest.raises(RsctlError, match="there is no target 'vertx'"):
        api.runs(target="vertx")


FULL = DiskFull(ExitCode.ENVIRONMENT, error("store", "its disk is full"))


@pytest.mark.parametrize("problem", [None, LOGGED_OUT, FULL, ResultUnknown])
def test_who_waits_for_a_run_hears_that_its_end_is_not_recorded_or_not_known(
    monkeypatch: pytest.MonkeyPatch, problem: Any
) -> None:
    """Any other problem of its target has been reported, and may pass."""
    running, ended = add("a-1"), add("b-1", "failed")
    target = Asked(ResultUnknown(running) if problem is ResultUnknown else problem)
    monkeypatch.setattr(outdated, "get", lambda _: target)
    with pytest.raises(RsctlError) if problem in (FULL, ResultUnknown) else nullcontext():
        assert outdated.awaited(running) == running
    assert outdated.awaited(ended) == ended
    assert target.runs == ["a-1"]


def test_a_full_disk_does_not_matter_once_the_end_of_a_run_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outdated, "get", lambda _: Asked(FULL))
    before = add("a-1")
    with closing(Store()) as store:
        store.record("a-1", StateEvent(time=at(9), state=JobState.FAILED))
    assert outdated.awaited(before).state is JobState.FAILED


def test_a_submission_does_not_wait_for_the_runs_of_a_cloud(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A killed run on this machine may still have processes; a cloud's run would only delay it."""
    target = Asked(None)
    monkeypatch.setattr(outdated, "get", lambda _: target)
    urls = {"elsewhere-1": "slurm://local/7", "rehearsed-1": "slurm://local/8"}
    for name, url in urls.items():
        add(name, "running", "slurm", url=url)
        RunFolder(name).create(RunDescription(run=name, target="slurm", request={}, replicas=[]))
    (run_directory("rehearsed-1") / "rehearsal.json").touch()
    job = tmp_path / "job.yaml"
    job.write_text(
        "name: t\ntarget: slurm\nrun: {command: [date]}\nlimits: {timeout: 1m}\n"
        f"targets: {{slurm: {{shared: {tmp_path}}}}}\n"
    )
    PreparedRun(make_submission(str(job)), (), target=get("slurm")).update_earlier_runs()
    assert target.runs == ["rehearsed-1"]


def test_where_to_see_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    here = results.pages_of(add())
    assert here["run"] == str(run_directory("job-1"))
    cloud = add("cloud-1", "running", "vertex", url="vertex://p/us-central1/7")
    target = SimpleNamespace(pages=lambda url, plan: {"console": f"https://{url}"})
    monkeypatch.setattr(results, "get", lambda _: target)
    assert results.pages_of(cloud) == {"console": "https://vertex://p/us-central1/7"}
    RunFolder("cloud-1").create(
        RunDescription(run="cloud-1", target="vertex", request={}, replicas=[])
    )
    (run_directory("cloud-1") / "rehearsal.json").touch()
    assert results.pages_of(cloud)["run"] == str(run_directory("cloud-1"))
