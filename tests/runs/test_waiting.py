"""Why a run waits for machines."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rsctl.findings import JobState
from rsctl.runs import waiting as module
from rsctl.runs.records import PHASES, Fact, RunRecord
from rsctl.runs.stream.events import TriedPlacement
from rsctl.runs.waiting import Waiting, waiting_of

RUN = RunRecord(
    run="job-a",
    name="job",
    target="vertex",
    url="vertex://job-a",
    state=JobState.QUEUED,
    created="2026-01-31T12:00:00.000000Z",
    reason="Resources are insufficient.",
    placements=[
        TriedPlacement(region="us-central1", began="2026-01-31T12:00:01.000000Z"),
        TriedPlacement(region="us-east1", began="2026-01-31T12:10:00.000000Z"),
        TriedPlacement(region="us-west1"),
    ],
)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "now", lambda: "2026-01-31T12:10:12.000000Z")


def test_a_run_names_its_place_its_limit_and_the_next_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_limit", {"job-a": 1800.0}.get)
    waiting = waiting_of(RUN)
    assert waiting == Waiting(
        since="2026-01-31T12:10:00.000000Z",
        reason="Resources are insufficient.",
        placement="us-east1",
        next="us-west1",
        until="2026-01-31T12:40:00Z",
    )
    assert waiting.describe() == (
        "0:12 in us-east1: Resources are insufficient; until 12:40:00 UTC (limits.queue); "
        "next: us-west1"
    )


def test_phases_of_an_earlier_version_do_not_say_whether_they_are_billed() -> None:
    fact = Fact(PHASES, "", [{"phase": "Starting", "seconds": 3.0}])
    assert waiting_of(replace(RUN, facts=[fact])) is not None


def test_the_targets_own_estimate() -> None:
    fact = Fact("expected_start", "expected to start", "2026-01-31T13:00:00Z")
    waiting = waiting_of(replace(RUN, reason="Priority", placements=[], facts=[fact]))
    assert waiting is not None
    assert waiting.describe() == "10:12: Priority; expected to start at 2026-01-31T13:00Z"


@pytest.mark.parametrize(
    "run",
    [
        replace(RUN, state=JobState.RUNNING, started="2026-01-31T12:10:05.000000Z"),
        replace(RUN, state=JobState.CANCELLING),
        replace(RUN, state=JobState.FAILED),
        replace(RUN, reason=None, placements=[]),
        replace(  # it downloads its inputs on machines that it has
            RUN,
            state=JobState.STARTING,
            facts=[Fact(PHASES, "", [{"phase": "Downloading", "billed": True}])],
        ),
    ],
)
def test_a_run_that_does_not_wait(run: RunRecord) -> None:
    assert waiting_of(run) is None


def test_the_last_placement_is_named_as_the_last() -> None:
    waiting = waiting_of(replace(RUN, reason=None, placements=RUN.placements[:2]))
    assert waiting is not None
    assert waiting.describe() == "0:12 in us-east1; this is the last placement"
