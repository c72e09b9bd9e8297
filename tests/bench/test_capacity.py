"""Benches on a target that has an image to build, few machines, and refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rsctl.bench import backoff
from rsctl.bench.backoff import Backoff
from rsctl.bench.prepare import BenchCell, BenchPlan, digest_of
from rsctl.bench.records import Benches, BenchRecord
from rsctl.bench.run import run_bench
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.images.events import Show
from rsctl.job.job import Job
from rsctl.plan import make_plan
from rsctl.runs.store import Store
from rsctl.runs.unknown_result import ResultUnknown
from rsctl.targets.base import Submission
from rsctl.targets.local.process import ProcessTarget
from tests.bench.test_run import Recording, ledger, prepared_at, ran

__all__ = ["ledger"]

QUOTA = RsctlError(ExitCode.REFUSED, error("quota", "no more than that", "ask for more"))
DENIED = RsctlError(ExitCode.REFUSED, error("denied", "not you"))
LOGGED_OUT = RsctlError(ExitCode.ENVIRONMENT, error("credentials", "log in"))


class Cloudlike(ProcessTarget):
    """Processes that begin from an image, as far as the bench can see.

    `refusals` are what the next submissions meet; None lets one pass.
    """

    def __init__(self, refusals: list[RsctlError | None]) -> None:
        super().__init__()
        self.refusals = refusals
        self.built: list[str] = []
        self.references: list[str | None] = []
        self.submitted: list[str] = []

    def render(self, job: Job, run: str) -> Submission:
        """With a tag that depends on what the image is made of."""
        submission = super().render(job, run)
        image = replace(submission.plan.image, tag=f"repo/image:{job.image.base or 'plain'}")
        return replace(submission, plan=replace(submission.plan, image=image))

    def have_image(self, submission: Submission, show: Show) -> str | None:
        """Counts the builds."""
        self.built.append(str(submission.plan.image.tag))
        return f"repo/image@sha256:{len(self.built)}"

    def submit(self, submission: Submission, record: Callable[[], None], show: Show) -> None:
        """Refuses first."""
        plan = submission.plan
        self.submitted.append(plan.run)
        self.references.append(plan.image.reference)
        problem = self.refusals.pop(0) if self.refusals else None
        if problem is not None:
            record()
            raise problem
        super().submit(submission, record, show)


def on(
    folder: Path, refusals: list[RsctlError | None], *settings: str, **options: Any
) -> tuple[Cloudlike, Callable[[], BenchRecord], Recording]:
    """The folder's job on such a target, ready to be run."""
    target, observer = Cloudlike(refusals), Recording()

    def prepared() -> BenchPlan:
        made = prepared_at(folder, *settings)
        cells = []
        for cell in made.cells:
            known = cell.submission
            submission = make_plan(known.job, target, known.plan.run)
            cells.append(BenchCell(cell.values, submission, digest_of(submission)))
        return dataclasses.replace(made, target=target, cells=cells)

    def start() -> BenchRecord:
        ready = prepared()
        bench = Benches(Store()).claim(ready.new_bench(1))
        return run_bench(ready, bench, observer=observer, **options)

    return target, start, observer


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for machines are short here."""
    monkeypatch.setattr(backoff, "_FIRST", 0.02)
    monkeypatch.setattr(backoff, "_PATIENCE", 0.5)


def test_cells_share_one_image_that_is_built_once(ledger: Path) -> None:
    """By digest, in a later call too; cells of another recipe share another one."""
    target, start, _ = on(ledger.parent, [DENIED], "matrix.image.base=[python:3.11, python:3.12]")
    bench = start()
    assert target.built == ["repo/image:python:3.11", "repo/image:python:3.12"]
    assert set(target.references) == {"repo/image@sha256:1", "repo/image@sha256:2"}
    assert bench.images["repo/image:python:3.12"] == "repo/image@sha256:2"
    start()
    assert len(target.built) == 2
    assert target.references[-1] == "repo/image@sha256:1"
    run = Store().get(target.submitted[-1])
    assert run is not None
    assert run.plan["image"]["reference"] == "repo/image@sha256:1"


def test_a_refusal_for_want_of_quota_is_tried_again_under_the_same_run(ledger: Path) -> None:
    """It is told, and no failure."""
    target, start, observer = on(ledger.parent, [QUOTA, QUOTA])
    bench = start()
    assert bench.state is JobState.SUCCEEDED
    assert len(target.submitted) == 5
    assert len(set(target.submitted)) == 3
    assert ran(ledger) == {"a": 1, "b": 1, "c": 1}
    assert [f.split(";")[0] for f in observer.findings] == ["no more than that"] * 2


def test_quota_that_never_comes_fails_in_the_end(ledger: Path) -> None:
    """Where no run of the bench could make room any more."""
    target, start, observer = on(ledger.parent, [QUOTA] * 1000)
    bench = start()
    assert {trial.state for trial in bench.trials} == {JobState.FAILED}
    assert bench.exit_code is ExitCode.REFUSED
    assert not ledger.exists()
    assert observer.findings[-1] == "no more than that"
    run = Store().get(target.submitted[-1])
    assert run is not None
    assert run.reason == "no more than that"


def test_a_refused_cell_leaves_the_others_alone(ledger: Path) -> None:
    """The exit code is that of the refusal."""
    _, start, observer = on(ledger.parent, [DENIED])
    bench = start()
    assert bench.exit_code is ExitCode.REFUSED
    assert ran(ledger) == {"b": 1, "c": 1}
    assert observer.findings == ["not you"]


def test_without_credentials_nothing_more_is_tried(ledger: Path) -> None:
    """The reason ends the command; the bench is incomplete."""
    target, start, _ = on(ledger.parent, [None, LOGGED_OUT])
    with pytest.raises(RsctlError, match="log in"):
        start()
    assert len(target.submitted) == 2
    [bench] = Benches(Store()).benches()
    assert bench.state is JobState.RUNNING
    assert ran(ledger) == {"a": 1}


def test_a_run_that_continues_is_named_rather_than_a_refused_submission(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as where credentials expire between two submissions."""
    target, start, observer = on(ledger.parent, [None, LOGGED_OUT], parallel=2)

    def poll(run: str) -> bool:
        if "log in" in observer.findings:
            raise ResultUnknown(Store().find(run), *LOGGED_OUT.findings)
        return False

    monkeypatch.setattr(target, "poll", poll)
    with pytest.raises(ResultUnknown, match="was accepted"):
        start()


def test_a_run_that_got_no_machines_is_tried_again(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another attempt, three in all."""
    Path(f"{ledger}.b").touch()
    monkeypatch.setattr("rsctl.bench.active_run.ActiveRun.lacked_machines", True)
    _, start, observer = on(ledger.parent, [])
    bench = start()
    assert ran(ledger) == {"a": 1, "b": 3, "c": 1}
    assert [t.attempt for t in bench.trials] == [0, 0, 1, 2, 0]
    assert observer.states.count(JobState.FAILED) == 3


def test_waits_double_and_end_unless_others_run() -> None:
    """Seconds of the caller's clock, scaled by the pace."""
    waits = Backoff(100.0, 10.0)
    seconds = [waits.wait(now, others_run=False) for now in (0.0, 1.0, 2.0)]
    assert all(second is not None for second in seconds)
    assert not waits.is_over(2.0)
    assert waits.is_over(500.0)
    assert waits.wait(999.0, others_run=False) is not None
    assert waits.wait(1001.0, others_run=False) is None
    assert waits.wait(1001.0, others_run=True) is not None
    waits.reset()
    assert waits.is_over(0.0)
